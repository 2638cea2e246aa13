import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

import { formulas } from "./plugins/formulas";
import { provenance } from "./plugins/provenance";

export default defineConfig({
  plugins: [formulas(), provenance(import.meta.dirname), viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    outDir: "../memgrad/explorer",
    // The folder also holds the Python side of the page.
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
  },
});
