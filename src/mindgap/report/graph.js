"use strict";
// Zooms and pans the pictures of graphs: wheel, drag, buttons, and the keys + - 0 and arrows.

function zoomable(svg) {
  const whole = svg.dataset.view.split(" ").map(Number);
  let [x, y, width, height] = whole;

  const show = () => svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  // A unit of the picture in pixels; the picture keeps its proportions.
  const scale = () => Math.min(svg.clientWidth / width, svg.clientHeight / height);

  function zoom(factor, atX = x + width / 2, atY = y + height / 2) {
    x = atX - (atX - x) / factor;
    y = atY - (atY - y) / factor;
    width /= factor;
    height /= factor;
    show();
  }

  function fit() {
    [x, y, width, height] = whole;
    show();
  }

  function pan(dx, dy) {
    x += dx;
    y += dy;
    show();
  }

  function focus() {
    const [middle, top] = svg.dataset.focus.split(" ").map(Number);
    zoom(1 / scale());
    x = middle - width / 2;
    y = top - height / 2;
    show();
  }

  // The view box has the proportions of the element, so that a point of one is a point of the other.
  function shape() {
    const wanted = svg.clientWidth / svg.clientHeight;
    const [left, top, wide, high] = whole;
    const fitted = Math.max(wide, high * wanted);
    whole.splice(0, 4, left - (fitted - wide) / 2, top - (fitted / wanted - high) / 2, fitted, fitted / wanted);
    fit();
    if (scale() > 1) zoom(1 / scale()); // a small graph is not blown up
    if (scale() < 0.4) focus(); // of a large graph, where the difference begins
  }

  const step = { zoomIn: () => zoom(1.4), zoomOut: () => zoom(1 / 1.4), fit, focus };
  const keys = {
    "+": step.zoomIn,
    "=": step.zoomIn,
    "-": step.zoomOut,
    0: fit,
    ArrowLeft: () => pan(-width / 8, 0),
    ArrowRight: () => pan(width / 8, 0),
    ArrowUp: () => pan(0, -height / 8),
    ArrowDown: () => pan(0, height / 8),
  };
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const button of svg.parentElement.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => step[button.dataset.step]());
  }
  // The wheel zooms only in a picture that was clicked or reached by the keyboard, so that the page still scrolls.
  svg.addEventListener("wheel", (event) => {
    if (document.activeElement !== svg) return;
    event.preventDefault();
    const place = svg.getBoundingClientRect();
    const [px, py] = [event.clientX - place.left, event.clientY - place.top];
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, x + px / scale(), y + py / scale());
  });
  svg.addEventListener("pointerdown", (event) => svg.setPointerCapture(event.pointerId));
  svg.addEventListener("pointermove", (event) => {
    if (svg.hasPointerCapture(event.pointerId)) pan(-event.movementX / scale(), -event.movementY / scale());
  });
  shape();
}

// A picture in a row that is not open has no size yet.
const sized = new ResizeObserver((seen) => {
  for (const { target } of seen) {
    if (!target.clientWidth) continue;
    sized.unobserve(target);
    zoomable(target);
  }
});
for (const each of document.querySelectorAll("svg.graph")) {
  if (each.clientWidth) zoomable(each);
  else sized.observe(each);
}
