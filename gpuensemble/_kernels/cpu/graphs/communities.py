"""The two loops of Louvain's method over a graph by rows, whose weights are integers so that sums have one value."""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.vector.empty import empty


@kernel
def best_moves(indptr, indices, weights, degree, label, volume, scale, target):
    """Set `target` to the community where each node gains most: its own if none is better; return how many are not.

    The first of equal ones wins. Joining c is worth w(i, c) - scale d_i (volume of c without i).
    """
    n, gaining = len(label), 0
    shared = np.zeros(n, np.int64)  # weight between the node and each community; all zero between two nodes
    for i in range(n):
        own, first, last = label[i], indptr[i], indptr[i + 1]
        for e in range(first, last):
            if indices[e] != i:
                shared[label[indices[e]]] += weights[e]
        price, choice = scale * degree[i], own
        stay = shared[own] - price * (volume[own] - degree[i])
        shared[own] = 0
        most = stay
        for e in range(first, last):
            c = label[indices[e]]
            if shared[c] > 0:
                worth = shared[c] - price * volume[c]
                if worth > most or (worth == most and choice != own and c < choice):
                    most, choice = worth, c
                shared[c] = 0
        target[i] = choice
        gaining += choice != own
    return gaining


@kernel
def contracted(indptr, indices, weights, label, n_communities):
    """Sum the weights between communities, by rows: pointers, indices and weights; columns are in no order."""
    members, ends = _members(label, n_communities)
    shared = np.zeros(n_communities, np.int64)
    found, total = empty(n_communities, np.int32), empty(n_communities + 1, np.int64)
    out_indices, out_weights = empty(len(indices), np.int32), empty(len(indices), np.int64)
    size = 0
    total[0] = 0
    for c in range(n_communities):
        n_found = 0
        for m in range(ends[c], ends[c + 1]):
            i = members[m]
            for e in range(indptr[i], indptr[i + 1]):
                other = label[indices[e]]
                if shared[other] == 0:
                    found[n_found] = other
                    n_found += 1
                shared[other] += weights[e]
        for f in range(n_found):
            out_indices[size], out_weights[size] = found[f], shared[found[f]]
            shared[found[f]] = 0
            size += 1
        total[c + 1] = size
    return total, out_indices[:size].copy(), out_weights[:size].copy()


@kernel
def _members(label, n_communities):
    """Sort nodes by their community: the nodes, and where those of each community begin."""
    ends = np.zeros(n_communities + 1, np.int64)
    for c in label:
        ends[c + 1] += 1
    for c in range(n_communities):
        ends[c + 1] += ends[c]
    members, place = empty(len(label), np.int32), ends[:-1].copy()
    for i in range(len(label)):
        members[place[label[i]]] = i
        place[label[i]] += 1
    return members, ends
