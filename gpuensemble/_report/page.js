// A click on the head of a column sorts the rows by it, a second one the other way round; what has no value stays last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (one, two) => {
        if (one === "" || two === "") return (one === "") - (two === "");
        const apart = one - two;
        return sign * (Number.isNaN(apart) ? one.localeCompare(two) : apart);
      };
      const rows = [...table.tBodies[0].rows].sort((one, two) => compare(value(one), value(two)));
      table.tBodies[0].append(...rows);
    });
  });
}
