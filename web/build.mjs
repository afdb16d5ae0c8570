// build.mjs [--watch] [DIRECTORY]: bundles the dashboard into DIRECTORY (web/dist).
//
//   index.html, assets/*    what a browser loads; the names in assets/ hold a hash of the contents
//   docs/*                  the pages of docs/, see docs.mjs
//   gzip/*                  the same, compressed
//   table.c, table.S        how the binary knows them: see assets.h
//   packages.json           the packages whose code is in it, for the list of parts (SBOM)
//   licenses.txt            their licences, which ask to be passed on
//
// Fails when the first load is larger than it may be. With --watch only the first line is made, again
// after each change, for `zabra serve --webDir web/dist`.

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import * as esbuild from 'esbuild';
import { renderDocs } from './docs.mjs';

/** Bytes, compressed, that must arrive before the first view is there. */
const FIRST_LOAD_MAX = 120 * 1024;

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const top = dirname(fileURLToPath(import.meta.url));
const watches = process.argv.includes('--watch');
const target = resolve(
  process.argv.slice(2).find((word) => !word.startsWith('-')) ?? join(top, 'dist'),
);

const options = {
  absWorkingDir: top,
  entryPoints: { main: 'src/main.tsx', docs: 'src/docs/docs.ts', icon: 'src/icon.svg' },
  outdir: target,
  entryNames: 'assets/[name]-[hash]',
  chunkNames: 'assets/[name]-[hash]',
  assetNames: 'assets/[name]-[hash]',
  publicPath: '/ui',
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['es2022'],
  minify: !watches,
  sourcemap: watches ? 'inline' : false,
  legalComments: 'none',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  conditions: ['production', 'browser'],
  loader: { '.svg': 'copy' },
  metafile: true,
  logLevel: 'warning',
};

/** What the page of an entry loads at once: it, what it imports, their styles. Paths below `target`. */
function loadOf({ outputs }, source) {
  const below = (path) => resolve(top, path).slice(target.length + 1);
  const byPath = new Map(Object.entries(outputs).map(([path, output]) => [below(path), output]));
  const entry = [...byPath].find(([, output]) => output.entryPoint === source)[0];
  const scripts = new Set([entry]);
  for (const path of scripts) {
    for (const one of byPath.get(path).imports) {
      if (one.kind === 'import-statement') {
        scripts.add(below(one.path));
      }
    }
  }
  const styles = [byPath.get(entry).cssBundle].filter(Boolean).map(below);
  const icon = [...byPath.keys()].find((path) => path.startsWith('assets/icon-'));
  return { entry, scripts: [...scripts], styles, icon };
}

function headOf({ entry, scripts, styles, icon }) {
  return [
    `<link rel="icon" href="/ui/${icon}">`,
    ...styles.map((path) => `<link rel="stylesheet" href="/ui/${path}">`),
    ...scripts
      .filter((path) => path !== entry)
      .map((path) => `<link rel="modulepreload" href="/ui/${path}">`),
    `<script type="module" src="/ui/${entry}"></script>`,
  ]
    .map((line) => `    ${line}`)
    .join('\n');
}

const firstLoad = (metafile) => loadOf(metafile, 'src/main.tsx');

/** The page of the dashboard and those of the documentation; their paths. */
function writePages(metafile) {
  const page = readFileSync(join(top, 'src/index.html'), 'utf8').replace(
    '    <!-- assets -->',
    headOf(firstLoad(metafile)),
  );
  const pages = [
    ...renderDocs(headOf(loadOf(metafile, 'src/docs/docs.ts'))),
    { path: 'index.html', bytes: page },
  ];
  for (const { path, bytes } of pages) {
    mkdirSync(dirname(join(target, path)), { recursive: true });
    writeFileSync(join(target, path), bytes);
  }
  return pages.map(({ path }) => path);
}

function filesOf(metafile) {
  const load = firstLoad(metafile);
  const first = new Set(['index.html', ...load.scripts, ...load.styles]);
  const assets = readdirSync(join(target, 'assets')).map((name) => `assets/${name}`);
  return [...assets, ...writePages(metafile)]
    .sort()
    .map((path) => ({ path, first: first.has(path), bytes: readFileSync(join(target, path)) }));
}

function compress(files) {
  for (const file of files) {
    file.gzip = gzipSync(file.bytes, { level: 9 });
    mkdirSync(dirname(join(target, 'gzip', file.path)), { recursive: true });
    writeFileSync(join(target, 'gzip', file.path), file.gzip);
  }
}

function checkSize(files) {
  const sum = (list) => list.reduce((bytes, file) => bytes + file.gzip.length, 0);
  const first = sum(files.filter((file) => file.first));
  const kib = (bytes) => (bytes / 1024).toFixed(1);
  console.log(`first load ${kib(first)} KiB of ${kib(FIRST_LOAD_MAX)}, all ${kib(sum(files))} KiB`);
  if (first > FIRST_LOAD_MAX) {
    console.error('The first load is too large: load what not every view needs with import().');
    process.exit(1);
  }
}

function writeTable(files) {
  const tag = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);
  const symbol = (at, form) => `asset_${at}_${form}`;
  const rows = files.map(
    ({ path, bytes, gzip }, at) =>
      `    {"/${path}", "${TYPES[extname(path)]}", "${tag(bytes)}",\n` +
      `     ${symbol(at, 'plain')}, ${symbol(at, 'gzip')}, ${bytes.length}, ${gzip.length}},\n`,
  );
  const names = files.flatMap((_, at) => [symbol(at, 'plain'), symbol(at, 'gzip')]);
  writeFileSync(
    join(target, 'table.c'),
    `/* Written by web/build.mjs. */\n#include "web/assets_int.h"\n\n` +
      names.map((name) => `extern const uint8_t ${name}[];\n`).join('') +
      `\nconst struct asset assets[] = {\n${rows.join('')}};\n` +
      `const size_t asset_count = sizeof(assets) / sizeof(assets[0]);\n`,
  );
  const place = (name, path) =>
    `    .globl ${name}\n    .type ${name}, %object\n${name}:\n    .incbin "${path}"\n    .size ${name}, . - ${name}\n`;
  writeFileSync(
    join(target, 'table.S'),
    `/* Written by web/build.mjs. */\n#ifdef __CET__\n#include <cet.h>\n#endif\n    .section .rodata\n` +
      files
        .map(({ path }, at) => {
          // The assembler is given the directory, so that the bundle can be moved.
          const plain = place(symbol(at, 'plain'), path);
          return plain + place(symbol(at, 'gzip'), join('gzip', path));
        })
        .join('') +
      `    .section .note.GNU-stack, "", %progbits\n`,
  );
}

/** The packages that the files were made from: those of the bundle, and `marked` for docs/. */
function writePackages({ inputs }) {
  const lock = JSON.parse(readFileSync(join(top, 'package-lock.json'), 'utf8')).packages;
  const folder = /^node_modules\/(?:@[^/]+\/)?[^/]+/;
  const used = new Set(['node_modules/marked']);
  for (const path of Object.keys(inputs)) {
    const found = folder.exec(path);
    if (found) {
      used.add(found[0]);
    }
  }
  const paths = [...used].sort();
  const packages = paths.map((path) => {
    const { version, license, integrity } = lock[path];
    return { name: path.slice('node_modules/'.length), version, license, integrity };
  });
  writeFileSync(join(target, 'packages.json'), `${JSON.stringify(packages, null, 1)}\n`);
  const texts = paths.map((path) => {
    const name = readdirSync(join(top, path)).find((file) => /^licen[cs]e/i.test(file));
    if (!name) {
      throw new Error(`${path} has no file with its licence`);
    }
    const text = readFileSync(join(top, path, name), 'utf8').trim();
    return `${path.slice('node_modules/'.length)} ${lock[path].version}\n\n${text}\n`;
  });
  writeFileSync(join(target, 'licenses.txt'), texts.join(`\n${'-'.repeat(72)}\n\n`));
}

/** What an earlier run has left has other names. */
function clear() {
  for (const name of ['assets', 'docs', 'gzip']) {
    rmSync(join(target, name), { recursive: true, force: true });
  }
}

async function watch() {
  const page = {
    name: 'page',
    setup(build) {
      build.onStart(clear);
      build.onEnd(({ metafile, errors }) => errors.length || writePages(metafile));
    },
  };
  const context = await esbuild.context({ ...options, plugins: [page] });
  await context.watch();
}

async function build() {
  clear();
  const { metafile } = await esbuild.build(options);
  const files = filesOf(metafile);
  compress(files);
  checkSize(files);
  writeTable(files);
  writePackages(metafile);
}

await (watches ? watch() : build());
