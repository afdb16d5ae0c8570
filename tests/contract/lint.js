// Both linters over both documents: neither an error nor a warning.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const documents = process.env.ZABRA_DOCUMENTS;
const modules = 'node_modules';

function lint(program, args) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(modules, program), ...args],
    { encoding: 'utf8' },
  );
  const text = `${stdout}${stderr}`;
  const clean = status === 0 && !/\bwarnings?\b/i.test(text);
  console.log(`${clean ? 'clean' : 'NOT CLEAN'}: ${program} ${args.at(-1)}`);
  if (!clean) {
    console.log(text);
  }
  return clean;
}

const results = [
  lint('@redocly/cli/bin/cli.js', [
    'lint',
    '--config',
    'redocly.yaml',
    '--format',
    'stylish',
    join(documents, 'openapi.json'),
  ]),
  lint('@stoplight/spectral-cli/dist/index.js', [
    'lint',
    '--fail-severity',
    'hint',
    '--ruleset',
    'spectral.yaml',
    join(documents, 'openapi.json'),
    join(documents, 'asyncapi.json'),
  ]),
];
process.exit(results.every(Boolean) ? 0 : 1);
