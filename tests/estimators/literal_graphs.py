"""Methods on graphs of clusters and samples, written down from their formulas, dense and slow; a hole is -1."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans


def clusters_of(labels):
    """Every cluster of every partition: its partition, and which samples are in it."""
    return [
        (i, labels[:, i] == value)
        for i in range(labels.shape[1])
        for value in np.unique(labels[:, i][labels[:, i] >= 0])
    ]


def entropy_weights(labels, theta=0.4):
    """exp(-h / (theta r)), h summed over the other partitions; of each only the samples count that it saw."""
    found = []
    for own, members in clusters_of(labels):
        h = 0.0
        for i in range(labels.shape[1]):
            others = labels[members, i]
            _, counts = np.unique(others[others >= 0], return_counts=True)
            if i != own and len(counts):
                share = counts / counts.sum()
                h -= (share * np.log2(share)).sum()
        found.append(np.exp(-h / (theta * labels.shape[1])))
    return np.array(found)


def jaccard(labels):
    """What two clusters share, over what they have together, among the samples that both partitions saw."""
    every = clusters_of(labels)
    found = np.zeros((len(every), len(every)))
    for a, (i, one) in enumerate(every):
        for b, (j, two) in enumerate(every):
            both = (labels[:, i] >= 0) & (labels[:, j] >= 0)
            if a != b and (one & two & both).any():
                found[a, b] = (one & two & both).sum() / ((one | two) & both).sum()
    return found


def trajectory_cosines(weight, steps, multiplicity=None):
    """Cosines of the rows of [P, P^2, .., P^steps] side by side."""
    weight = weight if multiplicity is None else weight * multiplicity
    step = weight / weight.sum(1, keepdims=True)
    walks, power = [], np.eye(len(step))
    for _ in range(steps):
        power = power @ step
        walks.append(power)
    rows = np.hstack(walks)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def average_linkage(similarity, k):
    distance = similarity.max() - similarity
    np.fill_diagonal(distance, 0)
    return fcluster(linkage(squareform((distance + distance.T) / 2, checks=False), "average"), k, "maxclust") - 1


def onehot(labels):
    return np.stack([members for _, members in clusters_of(labels)], axis=1).astype(float)


def bipartite_rows(links, k, damping=0.0, n_vectors=None):
    """The embedded rows of the graph with such links of samples and clusters, of length 1."""
    of_rows, of_clusters = links.sum(1), links.sum(0)
    affinity = links.T @ (links / of_rows[:, None])
    values, vectors = np.linalg.eigh(affinity / np.sqrt(np.outer(of_clusters, of_clusters)))
    n_vectors = n_vectors or k
    vectors = vectors[:, ::-1][:, :n_vectors] * np.abs(values[::-1][:n_vectors]) ** damping
    rows = (links / of_rows[:, None] / np.sqrt(of_clusters)) @ vectors
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def normalized_cut(affinity, k):
    """Ng, Jordan and Weiss: k-means of the normalised rows of leading eigenvectors."""
    degrees = affinity.sum(1)
    _, vectors = np.linalg.eigh(affinity / np.sqrt(np.outer(degrees, degrees)))
    rows = vectors[:, -k:]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return kmeans(rows, k)


def kmeans(rows, k):
    return KMeans(k, n_init=20, random_state=0).fit_predict(rows)


def vote(labels, group, votes, masses, k):
    """The group with the most votes of a sample's clusters, over the group's mass."""
    return (onehot(labels) @ (votes[:, None] * np.eye(k)[group]) / np.bincount(group, masses)).argmax(1)


def lwgp(labels, k, damping=0.0, n_vectors=None):
    return kmeans(bipartite_rows(onehot(labels) * entropy_weights(labels), k, damping, n_vectors), k)


def lwea(labels, k, theta=0.4):
    members = onehot(labels)
    return average_linkage((members * entropy_weights(labels, theta)) @ members.T / labels.shape[1], k)


def mcla(labels, k, cut):
    ones = np.ones(len(clusters_of(labels)))
    return vote(labels, cut(jaccard(labels), k), ones, ones, k)


def ecpcs_mc(labels, k, steps=20):
    ones = np.ones(len(clusters_of(labels)))
    return vote(labels, normalized_cut(trajectory_cosines(jaccard(labels), steps), k), ones, ones, k)


def ecpcs_hc(labels, k, steps=20):
    """The mean over partitions that saw both samples of the similarity of their clusters."""
    alike, every = trajectory_cosines(jaccard(labels), steps), clusters_of(labels)
    number = np.full(labels.shape, -1)
    for c, (i, members) in enumerate(every):
        number[members, i] = c
    similarity = np.zeros((len(labels), len(labels)))
    for x, one in enumerate(number):
        for y, two in enumerate(number):
            both = (one >= 0) & (two >= 0)
            similarity[x, y] = alike[one[both], two[both]].mean() if both.any() else 0
    return average_linkage(similarity, k)


def cluster_walk(labels, k, theta=0.4, steps=20):
    """The steps of docs/cluster_walk.md, where every group counts and has samples."""
    weight, sizes = entropy_weights(labels, theta), onehot(labels).sum(0)
    alike = trajectory_cosines(jaccard(labels) * np.outer(weight, weight), steps)
    group = average_linkage(alike, k)
    for _ in range(20):
        means = np.stack([alike[:, group == g].mean(1) for g in range(k)], axis=1)
        moved = means.argmax(1)
        if len(set(moved)) < k or (moved == group).all():
            break
        group = moved
    return vote(labels, group, weight, sizes, k)


def elite_trajectories(labels, n_neighbors, steps):
    """Huang, Lai, Wang 2016: cosines of walks between distinct rows on the graph of the most similar ones."""
    rows, group, multiplicity = np.unique(labels, axis=0, return_inverse=True, return_counts=True)
    agree = ((rows[:, None] == rows) & (rows[:, None] >= 0)).mean(2)
    np.fill_diagonal(agree, 0)
    kept = np.where(agree >= np.sort(agree, axis=1)[:, -n_neighbors, None], agree, 0)
    return rows, group.ravel(), trajectory_cosines(np.maximum(kept, kept.T), steps, multiplicity)


def pta(labels, k, n_neighbors, steps):
    """Average linkage of the similarity, each distinct row standing for its copies."""
    _, group, alike = elite_trajectories(labels, n_neighbors, steps)
    full = alike[np.ix_(group, group)]
    full[group[:, None] == group] = 2  # copies of a row come together first
    return average_linkage(full, k)


def ptgp(labels, k, n_neighbors, steps):
    rows, group, alike = elite_trajectories(labels, n_neighbors, steps)
    members = onehot(rows)
    return kmeans(bipartite_rows(alike @ members / members.sum(0), k), k)[group]
