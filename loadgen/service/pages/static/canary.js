"use strict";
/* A page of canaries kept fresh: the page itself is asked for again, and what it shows is replaced as a whole, so that
   its parts are always of one moment. Nothing is replaced under the hands of who is using it. */
(() => {
  const MOST_MS = 60000; // between two tries while the service does not answer
  const at = (id) => document.getElementById(id);
  let every = 1000 * Number(at("now").dataset.every || 0);
  let wait = every;

  const say = (text) => { if (at("fresh").textContent !== text) at("fresh").textContent = text; };
  const label = (details) => (details.closest("figure") || document).id + details.querySelector("summary").textContent;

  /** What was opened stays open; what has the focus is left alone. */
  function replace(page) {
    const [now, then] = [at("now"), page.getElementById("now")];
    if (!then || now.dataset.version === then.dataset.version) return true;
    if (now.contains(document.activeElement) && document.activeElement !== document.body) return false;
    const open = [...now.querySelectorAll("details[open]")].map(label);
    now.replaceWith(document.importNode(then, true));
    at("now").querySelectorAll("details").forEach((node) => { node.open = open.includes(label(node)); });
    const [stop, still] = [at("stop"), page.getElementById("stop")];
    if (stop && !still) stop.remove();
    dispatchEvent(new Event("figures"));
    every = 1000 * Number(then.dataset.every || 0);
    return true;
  }

  async function look() {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
        if (answer.redirected) return say("You are logged out: load this page again to go on.");
        if (!answer.ok) throw new Error(String(answer.status));
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const whole = replace(page);
        say(whole ? "" : "There are newer numbers; they are shown when you leave the table.");
        wait = every;
      } catch {
        say("The connection was lost; what is shown is from before. Trying again …");
        wait = Math.min(MOST_MS, 2 * wait);
      }
    }
    if (every) setTimeout(look, wait);
    return undefined;
  }

  document.addEventListener("visibilitychange", () => { wait = every; });
  if (every) setTimeout(look, every);
})();
