// The parts of the dashboard that need no browser: bundled as for the page, then tested by node.
// There is no DOM, so the browser tests the views.

import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const web = join(here, '../../web');
const esbuild = createRequire(join(web, 'package.json'))('esbuild');
const target = mkdtempSync(join(tmpdir(), 'zabra-unit-'));

/** All catalogues of texts, in any folder. */
const allTexts = {
  name: 'all-texts',
  setup(build) {
    build.onResolve({ filter: /^all-texts$/ }, () => ({ path: 'all-texts', namespace: 'texts' }));
    build.onLoad({ filter: /.*/, namespace: 'texts' }, () => ({
      contents: globSync('src/**/texts.ts', { cwd: web })
        .map((path) => `import ${JSON.stringify(join(web, path))};`)
        .join('\n'),
      resolveDir: web,
    }));
  },
};

await esbuild.build({
  entryPoints: globSync('unit/*.test.ts', { cwd: here }).map((path) => join(here, path)),
  outdir: target,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  nodePaths: [join(web, 'node_modules')],
  plugins: [allTexts],
  logLevel: 'warning',
});
const { status } = spawnSync(process.execPath, ['--test', `${target}/*.test.mjs`], {
  stdio: 'inherit',
  env: { ...process.env, TZ: 'UTC' },
});
rmSync(target, { recursive: true });
process.exit(status ?? 1);
