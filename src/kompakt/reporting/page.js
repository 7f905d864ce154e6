"use strict";
// Moves the figures of the path with the slider. All numbers come from the block #path-data.
(function () {
  const byId = (name) => document.getElementById(name);
  const source = byId("path-data");
  const slider = byId("size");
  if (!source || !slider) return;
  const data = JSON.parse(source.textContent);
  const cells = Array.from(document.querySelectorAll("#confusion td"));
  const dots = Array.from(document.querySelectorAll("#residuals use"));
  const vectors = Array.from(document.querySelectorAll("[data-rank]"));
  const last = data.sizes.length - 1;
  let spoken = 0;

  function show(index) {
    for (const [name, texts] of Object.entries(data.now)) {
      const place = byId("now-" + name);
      if (place) place.textContent = texts[index];
    }
    byId("size-output").textContent = data.now.size[index];
    slider.setAttribute("aria-valuetext", data.now.size[index] + " vectors");
    // drawn where the whole model is
    const dx = data.x[index] - data.x[last];
    byId("marker-rule").setAttribute("transform", `translate(${dx} 0)`);
    byId("marker-dot").setAttribute("transform", `translate(${dx} ${data.y[index] - data.y[last]})`);
    cells.forEach((cell, k) => {
      cell.textContent = data.cells[index][k];
      cell.style.setProperty("--v", data.shares[index][k]);
    });
    dots.forEach((one, k) => {
      one.setAttribute("x", data.rx[index][k]);
      one.setAttribute("y", data.ry[index][k]);
    });
    vectors.forEach((one) => one.classList.toggle("off", Number(one.dataset.rank) >= data.sizes[index]));
  }

  function say(index) {
    // once the slider rests, not at every step on the way
    clearTimeout(spoken);
    spoken = setTimeout(() => {
      byId("live").textContent =
        data.now.size[index] + " vectors: error " + data.now.error[index] + ", " + data.now.time[index] + " per row";
    }, 250);
  }

  slider.addEventListener("input", () => {
    show(Number(slider.value));
    say(Number(slider.value));
  });
  show(Number(slider.value)); // a browser may restore the slider where it was when the page is loaded again
})();
