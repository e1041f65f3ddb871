// Unpacks the scripts of a page and draws its charts, as wide as the page, again when the width or the paper changes.
(async () => {
  const own = document.currentScript;
  const near = (kind) => own.parentNode.querySelector(kind);
  const AXIS = 40, EDGE = 18;
  if (!window.vegaEmbed) {
    const packed = Uint8Array.from(atob(near(".orrery-scripts").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }
  const look = near(".orrery-look").textContent;
  const places = [...own.parentNode.querySelectorAll(".chart")];
  const specs = places.map((place) => JSON.parse(place.querySelector("script").textContent));

  const drawn = new Map();

  function sized(spec, width) {
    if (spec.vconcat) return { ...spec, vconcat: spec.vconcat.map((one) => sized(one, width)) };
    return { ...spec, width: Math.max(120, width - AXIS - EDGE) };
  }

  async function draw(index) {
    const place = places[index], style = getComputedStyle(place);
    const colour = (name) => style.getPropertyValue("--" + name).trim() || "#6b7684";
    const text = look.replace(/\$(ink|soft|line)/g, (_, name) => colour(name));
    const config = JSON.parse(text);
    config.title.limit = place.clientWidth - AXIS;
    const spec = { ...sized(specs[index], place.clientWidth), config, background: null };
    const tooltip = { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" };
    drawn.get(index)?.finalize();
    drawn.set(index, await vegaEmbed(place, spec, { mode: "vega-lite", renderer: "svg", actions: false, tooltip, hover: false }));
  }

  const widths = new Map();
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const index = places.indexOf(target), width = target.clientWidth;
      if (width && widths.get(index) !== width) {
        widths.set(index, width);
        requestAnimationFrame(() => draw(index)); // not within the observer, which a change of size would call again
      }
    }
  });
  places.forEach((place) => watch.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.forEach((_, index) => draw(index)));
})();
