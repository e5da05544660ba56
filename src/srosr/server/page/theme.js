// Runs before the page is drawn, so that a chosen theme does not flash. A classic script: modules run too late.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("srosr-theme");
  } catch {
    // Storage may be off; the system's choice holds then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
