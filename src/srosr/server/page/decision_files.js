// Decisions as files, in the columns of `srosr predict`.
import { download } from "./dom.js";
import { state } from "./state.js";

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  // Quotes where CSV needs them; a text that a spreadsheet would take for a formula stays as it is: labels are data.
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Save decisions as CSV or JSON. */
export function saveDecisions(decisions, format) {
  const name = `${state.model.name}-decisions.${format}`;
  if (format === "json") {
    const head = { model: state.model.name, version: state.run?.version, threshold: state.run?.threshold };
    download(name, "application/json", `${JSON.stringify({ ...head, decisions }, null, 1)}\n`);
    return;
  }
  // Bars stand between the classes of a set; where a class has one in its name, the sets are left out.
  const barred = decisions.some((d) => d.prediction_set?.some((label) => label.includes("|")));
  const extra = ["prediction_set", "p_value", "imputed"].filter(
    (column) => decisions.some((d) => d[column] !== undefined) && !(barred && column === "prediction_set"),
  );
  const columns = ["row", "label", "unknown_score", "candidate", "verdict", ...extra];
  if (decisions.some((d) => d.file)) columns.splice(1, 0, "file");
  const lines = decisions.map((d) =>
    columns.map((column) => cell(column === "prediction_set" ? (d[column] ?? []).join("|") : d[column])).join(","),
  );
  download(name, "text/csv", [columns.join(","), ...lines, ""].join("\n"));
}
