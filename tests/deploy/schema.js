// Validates documents of Kubernetes, a list as JSON on standard input, against its schemas. Prints
// each fault; exit code 1 if there is one, 77 if the packages are not installed.
//
// The schemas say types, required members and choices, but not that a member is unknown: the types
// of the same packages do, for a literal. So each document is also compiled as one.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
const FOREIGN = { 'monitoring.coreos.com': '@kubernetes-models/prometheus-operator' };

function moduleOf(apiVersion) {
  return `${FOREIGN[apiVersion.split('/')[0]] ?? 'kubernetes-models'}/${apiVersion}`;
}

function nameOf(item) {
  return `${item.kind} ${item.metadata?.name}`;
}

async function validate(item) {
  const models = await import(moduleOf(item.apiVersion)).catch(() => ({}));
  const Model = models[item.kind];
  if (!Model) {
    return `${nameOf(item)}: there is no ${item.kind} in ${item.apiVersion}`;
  }
  try {
    new Model(item).validate();
    return null;
  } catch (error) {
    return `${nameOf(item)}: ${error.message}`;
  }
}

/** Faults of the documents as literals of their types. */
function compile(ts, items, folder) {
  const file = join(folder, 'documents.ts');
  const lines = items.map((item, at) => {
    const type = `I${item.kind}`;
    const text = JSON.stringify(item, null, 1).replaceAll('\n', ' ');
    return `import type { ${type} as T${at} } from '${moduleOf(item.apiVersion)}'; ` +
      `export const d${at}: T${at} = ${text};`;
  });
  writeFileSync(file, `${lines.join('\n')}\n`);
  const program = ts.createProgram([file], {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    types: [],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    target: ts.ScriptTarget.ES2022,
  });
  return ts.getPreEmitDiagnostics(program).map((fault) => {
    const text = ts.flattenDiagnosticMessageText(fault.messageText, '; ');
    if (!fault.file || fault.start === undefined) {
      return text;
    }
    const { line } = fault.file.getLineAndCharacterOfPosition(fault.start);
    return `${nameOf(items[line] ?? {})}: ${text}`;
  });
}

async function faultsOf(ts, items) {
  const folder = mkdtempSync(join(HERE, 'node_modules', '.check-'));
  try {
    const found = await Promise.all(items.map(validate));
    return [...found.filter((fault) => fault), ...compile(ts, items, folder)];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function service(name, spec) {
  return { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec };
}

/** Documents in which a fault must be found; else the schemas are not what this file takes them for. */
const WRONG = [
  service('wrong-type', { ports: [{ port: '9998' }] }),
  service('wrong-member', { ports: [{ port: 9998, bogus: 1 }] }),
  service('wrong-lack', { ports: [{ name: 'clients' }] }),
  { apiVersion: 'v1', kind: 'Servise', metadata: { name: 'wrong-kind' } },
];

async function main() {
  let ts;
  try {
    ts = (await import('typescript')).default;
    await import('kubernetes-models/v1');
  } catch {
    console.log('the packages are not installed');
    return 77;
  }
  const items = JSON.parse(readFileSync(0, 'utf8'));
  const found = await faultsOf(ts, [...items, ...WRONG]);
  const isAbout = (fault, item) => fault.startsWith(`${nameOf(item)}: `);
  const missed = WRONG.filter((item) => !found.some((fault) => isAbout(fault, item)));
  const faults = [
    ...missed.map((item) => `not found: the fault of ${nameOf(item)}`),
    ...found.filter((fault) => !WRONG.some((item) => isAbout(fault, item))),
  ];
  faults.forEach((fault) => console.log(fault));
  return faults.length > 0 ? 1 : 0;
}

process.exitCode = await main();
