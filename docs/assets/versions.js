// The theme asks its server for the list of versions, ../versions.json. There is none beside a site that was only
// built, and a page that was opened from a folder may not ask: then the page does without, and nothing fails.
// `python -m docs.site.publish` writes true here, into the copy that it publishes.
(() => {
  "use strict";
  const published = false;
  if (published && location.protocol !== "file:") return;
  const place = document.getElementById("__config");
  const config = JSON.parse(place.textContent);
  config.version = null;
  place.textContent = JSON.stringify(config);
})();
