/** What the built page says of its own making: a stamp of its sources, and the licences of what it contains. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import type { Plugin } from "vite";

/** All files that the page is made from. tests/explorer/test_explorer.py holds the same list, and recomputes the stamp. */
const SOURCES = [
  "plugins",
  "src",
  "index.html",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "vite.config.ts",
];

function filesUnder(path: string): string[] {
  const entries = readdirSync(path, { withFileTypes: true });
  return entries.flatMap((entry) =>
    entry.isDirectory() ? filesUnder(join(path, entry.name)) : [join(path, entry.name)],
  );
}

/** SHA-256 over the sorted files: name, a zero byte, contents, a zero byte. */
export function stampOf(root: string): string {
  const files = SOURCES.flatMap((name) => (name.includes(".") ? [join(root, name)] : filesUnder(join(root, name))));
  const names = new Map(files.map((file) => [relative(root, file).replaceAll("\\", "/"), file]));
  const hash = createHash("sha256");
  for (const name of [...names.keys()].sort()) {
    hash
      .update(name)
      .update("\0")
      .update(readFileSync(names.get(name)!))
      .update("\0");
  }
  return hash.digest("hex");
}

function licencesOf(root: string, packages: string[]): string {
  return packages
    .sort()
    .map((name) => {
      const folder = join(root, "node_modules", name);
      const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string };
      const file = ["LICENSE", "LICENSE.md", "LICENCE"].map((each) => join(folder, each)).find(existsSync);
      if (file === undefined) throw new Error(`${name} has no licence file in ${folder}: do not bundle it.`);
      return `${name} ${version}\n\n${readFileSync(file, "utf8").trim()}`;
    })
    .join("\n\n----\n\n");
}

export function provenance(root: string): Plugin {
  const packages = new Set<string>();
  return {
    name: "provenance",
    enforce: "post",
    moduleParsed({ id }) {
      const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
      if (name !== undefined) packages.add(name);
    },
    transformIndexHtml: {
      order: "post",
      handler(html) {
        const licences = licencesOf(root, [...packages]).replaceAll("-->", "-- >");
        return html.replace(
          "<head>",
          `<head>\n<!--\nmemgrad explorer, Apache-2.0. It contains:\n\n${licences}\n-->\n` +
            `<meta name="memgrad-explorer-sources" content="${stampOf(root)}">`,
        );
      },
    },
  };
}
