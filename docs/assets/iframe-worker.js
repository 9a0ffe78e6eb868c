// Search runs in a worker, and browsers refuse workers to pages that were opened from a folder. Here a
// frame of the same page does a worker's work. Where workers are allowed, nothing changes.
(() => {
  "use strict";
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.onerror = null;
      this.waiting = [];
      this.place = document.createElement("iframe");
      this.place.hidden = true;
      this.place.setAttribute("aria-hidden", "true");
      document.body.appendChild(this.place);

      const inside = this.place.contentWindow;
      // What the worker's script calls: it posts answers and loads further scripts.
      inside.postMessage = (data) => this.hear(data);
      inside.importScripts = (...urls) =>
        urls.reduce(
          (before, next) => before.then(() => this.load(new URL(next, url).href)),
          Promise.resolve(),
        );
      this.ready = this.load(String(url)).catch((error) => this.fail(error));
    }

    load(url) {
      const page = this.place.contentDocument;
      return new Promise((resolve, reject) => {
        const script = page.createElement("script");
        script.src = url;
        script.onload = () => resolve();
        script.onerror = () => reject(new Error(`cannot load ${url}`));
        page.body.appendChild(script);
      });
    }

    hear(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    fail(error) {
      const event = new ErrorEvent("error", { error, message: String(error) });
      this.dispatchEvent(event);
      if (this.onerror) this.onerror(event);
    }

    // In order, and not before the script is there to hear it.
    postMessage(data) {
      this.ready = this.ready.then(() => {
        const inside = this.place.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.place.remove();
    }
  }

  window.Worker = FrameWorker;
})();
