// Compares the output of the command line for programs with openapi/output.yaml: each command with
// each outcome, as JSON and as lines of JSON; exit codes; no command and no schema without a case.

import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { portFree } from '../lib/ports.mjs';
import { ask } from './client.js';
import { Ensemble, PEER_OFFSET } from './ensemble.js';
import {
  AGAIN,
  CASES,
  FIXTURE,
  GROUPS,
  OUTCOMES,
  USUAL,
  WITHOUT_OUTPUT,
} from './output_cases.js';
import { Schemas, readDocument } from './spec.js';

const LINE_MS = 120000; // Timeout of a line.
const LANES = 4; // Lines in parallel: most of them wait.
const OK = 200;
const FORMATS = ['json', 'ndjson'];
const AS_LINES = ['success', 'not found'];
const SHELL = 'z() { c=$1; shift; zabra "$c" -o "$O" "$@"; }\n';
const UNUSED_ENDPOINT = '127.0.0.1:1';
const UNUSED_ENDPOINT_MS = '250ms'; // Time for one attempt.
const PATIENT_MS = '10s'; // The same where the machine did not let a command make one.
const LATE = 7;
const USAGE = 2;

const document = readDocument('output');
const definitions = document.$defs;
const SUPER_DIGEST = 'super:zUZ0bpqYS7FucDXsnUgxOWTto1s='; // The password is root.
const schemas = new Schemas(document);
const used = new Set();
const complaints = [];
let count = 0;

function complain(where, text) {
  complaints.push(`${where}: ${text}`);
}

// ---- The cases, one by one ----

function usualOf(outcome) {
  return USUAL[outcome] ?? {};
}

function linesOf(command, outcome) {
  const lines = CASES[command][outcome] ?? [];
  if (lines === AGAIN) {
    return linesOf(command, 'success').map((entry) => [].concat(entry)[0]);
  }
  return typeof lines === 'string' ? [] : lines;
}

/**
 * The cases of a command: { command, outcome, line, code, said (of the error), erring (its
 * command), schema, ... }.
 */
function casesOf(command) {
  return [...OUTCOMES, 'other'].flatMap((outcome) =>
    linesOf(command, outcome).map((entry) => {
      const [line, expected] = [].concat(entry);
      return { command, outcome, line, ...usualOf(outcome), ...expected };
    }),
  );
}

/** A mistake on the command line: reported like all errors, or as text by commands without -o. */
function mistakeOf(command) {
  const silent = WITHOUT_OUTPUT.includes(command);
  return {
    command,
    outcome: 'mistake',
    line: `${silent ? 'zabra' : 'z'} ${command} --no-such-option`,
    code: USAGE,
    ...(silent ? { schema: null, text: true } : { said: 'Usage' }),
  };
}

// ---- Running ----

class World {
  static async open() {
    const world = new World();
    world.ensemble = await Ensemble.start(3, { superDigest: SUPER_DIGEST });
    world.directory = mkdtempSync(join(tmpdir(), 'zabra-output-'));
    writeFileSync(join(world.directory, 'pw'), 'pw\n');
    chmodSync(join(world.directory, 'pw'), 0o600);
    const port = await portFree(2, PEER_OFFSET);
    world.environment = {
      PATH: `${dirname(process.env.ZABRA_BINARY)}:${process.env.PATH}`,
      LC_ALL: 'C.UTF-8',
      TMPDIR: world.directory,
      XDG_CONFIG_HOME: '/nowhere',
      XDG_STATE_HOME: '/nowhere',
      EDITOR: 'sed -i s/hello/edited/',
      ZABRA_ENDPOINTS: world.ensemble.ports.map((at) => `127.0.0.1:${at}`).join(','),
      D: world.directory,
      E: world.ensemble.directory,
      PORT: String(port),
      OTHER_PORT: String(port + 1),
    };
    return world;
  }

  /** Creates the initial znodes of all commands' cases. */
  async furnish(format) {
    for (const command of Object.keys(CASES)) {
      const ops = FIXTURE.map(({ path, ...rest }) => ({
        op: 'create',
        path: `/${format}-${command}${path}`,
        ...rest,
      }));
      const { status } = await ask(this.ensemble.ports[0], {
        method: 'POST',
        target: '/multi/v1',
        headers: ['Content-Type: application/json'],
        body: Buffer.from(JSON.stringify({ ops })),
      });
      if (status !== OK) {
        throw new Error(`the znodes for ${command} are refused with ${status}`);
      }
    }
  }

  environmentOf(each, format, timeout) {
    const unreachable = each.outcome === 'no ensemble';
    return {
      ...this.environment,
      O: format,
      P: `/${format}-${each.command}`,
      ...(unreachable ? { ZABRA_ENDPOINTS: UNUSED_ENDPOINT, ZABRA_TIMEOUT: timeout } : {}),
    };
  }

  /** Returns { code, stdout, stderr } of a case; always ends its process and the children. */
  run(each, format, timeout = UNUSED_ENDPOINT_MS) {
    return new Promise((resolve) => {
      const child = spawn('sh', ['-c', SHELL + each.line], {
        env: this.environmentOf(each, format, timeout),
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      });
      const said = { stdout: [], stderr: [] };
      child.stdout.on('data', (piece) => said.stdout.push(piece));
      child.stderr.on('data', (piece) => said.stderr.push(piece));
      const late = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), LINE_MS);
      child.once('close', (code) => {
        clearTimeout(late);
        resolve({
          code,
          stdout: Buffer.concat(said.stdout).toString(),
          stderr: Buffer.concat(said.stderr).toString(),
        });
      });
    });
  }

  async close() {
    await this.ensemble.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

// ---- Checks ----

/** The definition of the printed value number `at`. */
function nameOf(each, format, at) {
  const names = [].concat(each.schema === undefined ? each.command : each.schema);
  const name = names[Math.min(at, names.length - 1)];
  const line = `${name}.line`;
  return definitions[line] && (format === 'ndjson' || !definitions[name]) ? line : name;
}

function isNothing(name) {
  return definitions[name] && definitions[name].not !== undefined;
}

/** The permitted number of values: [least, most]. */
function countOf(each, format) {
  const name = nameOf(each, format, 0);
  if (each.schema === null || isNothing(name)) {
    return [0, 0];
  }
  if (name.endsWith('.line') || Array.isArray(each.schema)) {
    return [format === 'json' && Array.isArray(each.schema) ? each.schema.length : 0, Infinity];
  }
  return each.command === 'api' ? [0, 1] : [1, 1];
}

function parseLines(stdout) {
  if (stdout !== '' && !stdout.endsWith('\n')) {
    throw new Error('the last line has no line feed');
  }
  return stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

function check(where, name, value) {
  used.add(name);
  if (!definitions[name]) {
    complain(where, `there is no definition ${name}`);
    return;
  }
  schemas
    .check({ $ref: `#/$defs/${name}` }, value)
    .forEach((error) => complain(where, `${name}: ${error} in ${JSON.stringify(value)}`));
}

function judgeError(where, each, code, value) {
  check(where, 'Error', value);
  const error = value?.error ?? {};
  if (error.exit_code !== code) {
    complain(where, `the error has exit_code ${error.exit_code}, the exit code is ${code}`);
  }
  if (error.command !== (each.erring ?? each.command)) {
    complain(where, `the error names the command ${error.command}`);
  }
  if (each.said && error.code !== each.said) {
    complain(where, `the error is ${error.code}, not ${each.said}: ${error.message}`);
  }
}

function judgeValues(where, each, format, values) {
  const [least, most] = countOf(each, format);
  if (values.length < least || values.length > most) {
    complain(where, `${values.length} values are printed`);
  }
  if (each.schema === null || most === 0) {
    used.add(each.schema === null ? each.command : nameOf(each, format, 0));
    return;
  }
  values.forEach((value, at) => check(where, nameOf(each, format, at), value));
}

function judge(each, format, { code, stdout, stderr }) {
  const where = `${format}: ${each.outcome}: ${each.line}`;
  if (![].concat(each.code).includes(code)) {
    complain(where, `ends with ${code}, not ${each.code}: ${stdout}${stderr}`);
    return;
  }
  if (each.text) {
    used.add(each.command);
    return;
  }
  if (each.shows && !stdout.includes(each.shows)) {
    complain(where, `${each.shows} is not in ${stdout}`);
  }
  let values = [];
  try {
    values = parseLines(stdout);
  } catch (error) {
    complain(where, `${error.message}: ${stdout}`);
    return;
  }
  const fails = code !== 0 && !each.value;
  if (fails) {
    judgeError(where, each, code, values.pop());
  }
  if (!fails || nameOf(each, format, 0).endsWith('.line')) {
    judgeValues(where, each, format, values);
  } else if (values.length > 0) {
    complain(where, `${values.length} values are printed before the error`);
  }
}

// ---- Missing cases ----

/** Compares the table of commands with that of the cases, both ways, for each outcome. */
function compareCommands(commands) {
  for (const command of commands.filter((name) => !CASES[name])) {
    complain(command, 'there is no case for it');
  }
  for (const [command, outcomes] of Object.entries(CASES)) {
    if (!commands.includes(command)) {
      complain(command, 'there is no such command');
    }
    for (const outcome of OUTCOMES) {
      if (outcomes[outcome] === undefined) {
        complain(command, `neither a case nor a reason for "${outcome}"`);
      }
    }
    if (linesOf(command, 'success').length === 0) {
      complain(command, 'no case of success');
    }
  }
}

function compareDefinitions(commands) {
  for (const name of Object.keys(definitions).filter((key) => /^[a-z]/.test(key))) {
    if (!commands.includes(name.split('.')[0])) {
      complain(name, 'the schema of no command');
    } else if (!used.has(name)) {
      complain(name, 'no case checks this schema');
    }
  }
}

// ---- All ----

/** One function writes all errors, so only some are checked as lines. */
function isWanted({ outcome, once }, format) {
  return format === FORMATS[0] || (!once && AS_LINES.includes(outcome));
}

async function runCommand(world, command, format) {
  const cases = [...casesOf(command), mistakeOf(command)];
  for (const each of cases.filter((one) => isWanted(one, format))) {
    let ended = await world.run(each, format);
    if (each.outcome === 'no ensemble' && ended.code === LATE && each.code !== LATE) {
      ended = await world.run(each, format, PATIENT_MS);
    }
    judge(each, format, ended);
    count += 1;
  }
}

/** Runs group after group, until none is left. */
async function runGroups(world, groups, format) {
  for (let group = groups.shift(); group; group = groups.shift()) {
    for (const command of group) {
      await runCommand(world, command, format);
    }
  }
}

async function runFormat(world, format) {
  const groups = [...GROUPS].reverse(); // The longest one first.
  await world.furnish(format);
  await Promise.all(Array.from({ length: LANES }, () => runGroups(world, groups, format)));
}

async function namesOf(world) {
  const { stdout } = await world.run({ command: 'help', line: 'z help' }, 'json');
  return JSON.parse(stdout).commands.map(({ name }) => name);
}

async function main() {
  const world = await World.open();
  try {
    const commands = await namesOf(world);
    compareCommands(commands);
    for (const format of FORMATS) {
      await runFormat(world, format);
    }
    compareDefinitions(commands);
  } finally {
    await world.close();
  }
  complaints.forEach((text) => console.log(text));
  console.log(`${count} cases, ${complaints.length} complaints`);
  process.exitCode = complaints.length === 0 ? 0 : 1;
}

main().catch((error) => {
  console.log(error.stack);
  process.exitCode = 1;
});
