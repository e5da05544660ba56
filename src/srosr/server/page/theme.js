// Runs before the page is drawn, so that a chosen theme does not flash. A classic script: modules run too late.
try {
  document.documentElement.dataset.theme = localStorage.getItem("srosr-theme") ?? "";
} catch {
  // Storage may be off; the system's choice holds then.
}
