"use strict";
// Moves the figures of the path with the slider. All numbers come from the block #path-data.
(function () {
  const byId = (name) => document.getElementById(name);
  const source = byId("path-data");
  const slider = byId("size");
  if (!source || !slider) return;
  const data = JSON.parse(source.textContent);
  const cells = Array.from(document.querySelectorAll("#confusion td"));
  const dots = Array.from(document.querySelectorAll("#residuals circle"));
  const vectors = Array.from(document.querySelectorAll("[data-rank]"));
  let spoken = 0;

  function show(index) {
    for (const [name, texts] of Object.entries(data.now)) {
      const place = byId("now-" + name);
      if (place) place.textContent = texts[index];
    }
    byId("size-output").textContent = data.now.size[index];
    slider.setAttribute("aria-valuetext", data.now.size[index] + " vectors");
    const rule = byId("marker-rule");
    rule.setAttribute("x1", data.x[index]);
    rule.setAttribute("x2", data.x[index]);
    const dot = byId("marker-dot");
    dot.setAttribute("cx", data.x[index]);
    dot.setAttribute("cy", data.y[index]);
    cells.forEach((cell, k) => {
      cell.textContent = data.cells[index][k];
      cell.style.setProperty("--v", data.shares[index][k]);
    });
    dots.forEach((one, k) => {
      one.setAttribute("cx", data.rx[index][k]);
      one.setAttribute("cy", data.ry[index][k]);
    });
    vectors.forEach((one) => one.classList.toggle("off", Number(one.dataset.rank) >= data.sizes[index]));
    // said once the slider rests, not at every step on the way
    clearTimeout(spoken);
    spoken = setTimeout(() => {
      byId("live").textContent =
        data.now.size[index] + " vectors: error " + data.now.error[index] + ", " + data.now.time[index] + " per row";
    }, 250);
  }

  slider.addEventListener("input", () => show(Number(slider.value)));
  // a browser may restore the slider where it was when the page is loaded again
  if (Number(slider.value) !== data.sizes.length - 1) show(Number(slider.value));
})();
