// Short names of the kinds of evidence, the same as in the figures.

const NAMES = {
  matched: "error of the best class",
  nonmatched: "errors of other classes",
  concentration: "concentration of the code",
  ratio: "best vs. second class",
  surplus: "part from other classes",
  collaborative: "collaborative score",
  margin: "collaborative margin",
  subspace: "best vs. second subspace",
  local: "local score",
  local_margin: "local margin",
  gaussian: "relative Mahalanobis distance",
  gaussian_margin: "Mahalanobis margin",
  nearest: "distance to the nearest sample",
  standardized: "score on standardized columns",
  standardized_margin: "margin on standardized columns",
  standardized_nearest: "nearest on standardized columns",
  fused: "fused class score",
  fused_margin: "fused class margin",
};

/** Return the name of a kind of evidence for people. */
export const evidenceName = (name) => NAMES[name] ?? name.replaceAll("_", " ");
