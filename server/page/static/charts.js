// Charts of what is allowed and refused per second, drawn by uPlot, which index.html loads.

const dark = matchMedia("(prefers-color-scheme: dark)");
const charts = new Set();

// Colours are set when a chart is made; so all are made anew when they change.
dark.addEventListener("change", () => charts.forEach((c) => c.make()));

const sizes = new ResizeObserver((entries) => {
  for (const e of entries) e.target.chart?.resize();
});

function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(name).trim();
}

/** A Chart shows two rows of numbers over time. A spark is a small one without axes. */
export class Chart {
  constructor(node, spark) {
    this.node = node;
    this.spark = spark;
    this.data = [[], [], []];
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", "No takes yet");
    node.chart = this;
    charts.add(this);
    this.make();
    sizes.observe(node);
  }

  make() {
    this.plot?.destroy();
    const colour = colours();
    const series = (name, dash) => ({
      stroke: colour("--" + name), fill: colour("--" + name + "-area"), width: this.spark ? 1.5 : 2, dash,
      points: { show: false },
    });
    const axis = {
      stroke: colour("--muted"), font: "12px system-ui, sans-serif",
      grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false },
    };
    this.plot = new uPlot({
      ...this.size(),
      pxAlign: 0,
      padding: this.spark ? [3, 0, 2, 0] : [8, 8, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
      axes: this.spark ? [{ show: false }, { show: false }] : [
        { ...axis, space: 90, size: 30, values: (_, at) => at.map(clock) },
        { ...axis, size: 52, values: (_, at) => at.map((n) => (n >= 1000 ? n / 1000 + "k" : n)) },
      ],
      series: [{}, series("allowed"), series("refused", [6, 4])],
    }, this.data, this.node);
  }

  size() {
    return { width: Math.max(this.node.clientWidth, 60), height: this.node.clientHeight || 34 };
  }

  resize() {
    const size = this.size();
    if (this.node.clientWidth && (size.width !== this.plot.width || size.height !== this.plot.height)) this.plot.setSize(size);
  }

  show(data, label) {
    this.data = data;
    this.plot.setData(data);
    this.node.setAttribute("aria-label", label);
  }

  remove() {
    sizes.unobserve(this.node);
    charts.delete(this);
    this.plot.destroy();
  }
}

function clock(at) {
  return new Date(at * 1000).toTimeString().slice(0, 8);
}
