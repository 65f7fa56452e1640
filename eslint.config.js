import js from "@eslint/js";

/* Modules that tests run in Node: arithmetic, the selection, words. They know no document. */
const PURE = ["numbers", "text", "tables", "shares", "selection", "scene", "tracks", "ranking", "phrases", "csv", "logit", "colours"];
const BROWSER = [
  "atob", "Blob", "CircuitsVis", "DecompressionStream", "document", "history", "Image", "location", "navigator", "performance", "requestAnimationFrame", "ResizeObserver",
  "Response", "setTimeout", "TextDecoder", "URL", "window", "XMLSerializer",
];
const globals = (names) => Object.fromEntries(names.map((name) => [name, "readonly"]));

export default [
  { ignores: ["**/*.bundle.js", "**/build/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals(BROWSER) },
    rules: {
      "array-callback-return": "error", eqeqeq: "error", "no-else-return": "error", "no-eval": "error", "no-implied-eval": "error", "no-new-func": "error", "no-var": "error",
      "no-shadow": "error", "no-use-before-define": ["error", { functions: false, variables: false }], "object-shorthand": "error", "prefer-const": "error",
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML", "write"].map((property) => ({ property, message: "Tokens are text: write textContent." }))],
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
    },
  },
  {
    files: PURE.map((name) => `**/assets/${name}.js`),
    rules: { "no-restricted-globals": ["error", "document", "window", "location", "history", "navigator"] },
  },
  { files: ["tests/page/*.mjs"], languageOptions: { globals: globals(["console", "process"]) } },
];
