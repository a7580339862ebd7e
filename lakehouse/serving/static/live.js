"use strict";
// Fetches this page again and replaces its content, as long as it is visible.
setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("numbers");
    const shown = document.getElementById("numbers");
    if (fresh && shown && fresh.innerHTML !== shown.innerHTML) shown.replaceWith(fresh);
  } catch {
    // The server is away; the next attempt may succeed.
  }
}, 2000);
