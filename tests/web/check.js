// Makes types from the contract, then runs the compiler and the linter over web/ and this folder.
// With --write the linter fixes what it can.

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import openapiTs, { astToString } from 'openapi-typescript';

const here = dirname(fileURLToPath(import.meta.url));
const web = join(here, '../../web');
const documents = process.env.ZABRA_DOCUMENTS ?? join(here, '../../build/release/openapi');
const writes = process.argv.includes('--write');

/** AsyncAPI has the same schemas; the generator only has to find them. */
async function writeTypes(name) {
  const { components } = JSON.parse(readFileSync(join(documents, `${name}.json`), 'utf8'));
  const document = { openapi: '3.1.0', info: { title: name, version: '0' }, paths: {} };
  const ast = await openapiTs({ ...document, components: { schemas: components.schemas } });
  const text = astToString(ast);
  const path = join(web, `src/api/${name}.gen.d.ts`);
  let old = '';
  try {
    old = readFileSync(path, 'utf8');
  } catch {
    // The file does not exist yet.
  }
  if (old !== text) {
    writeFileSync(path, text);
  }
}

function run(program, ...args) {
  const { status } = spawnSync(program, args, { cwd: here, stdio: 'inherit' });
  return status === 0 ? 0 : 1;
}

await writeTypes('openapi');
await writeTypes('asyncapi');
const failed =
  run(
    process.execPath,
    'node_modules/typescript/bin/tsc',
    '--project',
    join(web, 'tsconfig.json'),
  ) +
  run(
    `node_modules/@biomejs/cli-linux-${process.arch}/biome`,
    ...['check', '--config-path', here, '--error-on-warnings', ...(writes ? ['--write'] : [])],
    join(web, 'src'),
    join(web, 'build.mjs'),
    join(web, 'docs.mjs'),
    here,
  );
console.log(`${2 - failed} passed, ${failed} failed`);
process.exit(failed);
