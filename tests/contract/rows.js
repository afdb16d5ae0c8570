// Compares the server's table of operations, its routes and its errors with the documents, both
// ways.

import { readDocument, readFacts, resolve } from './spec.js';

const openapi = readDocument('openapi');
const asyncapi = readDocument('asyncapi');
const facts = readFacts();
const rows = facts.rows.filter((row) => !row.internal);
let looked = 0;
let failed = 0;

function expect(holds, text) {
  looked += 1;
  if (!holds) {
    failed += 1;
    console.log(text);
  }
}

function sameSet(what, written, built) {
  const extra = [...written].filter((one) => !built.has(one));
  const missing = [...built].filter((one) => !written.has(one));
  expect(extra.length === 0, `${what}: only in the documents: ${extra.join(', ')}`);
  expect(missing.length === 0, `${what}: only in the server: ${missing.join(', ')}`);
}

/** All members in a schema. */
function membersOf(document, schema, into = new Set()) {
  const found = resolve(document, schema);
  Object.keys(found.properties ?? {}).forEach((name) => into.add(name));
  for (const part of [...(found.allOf ?? []), ...(found.oneOf ?? []), ...(found.anyOf ?? [])]) {
    membersOf(document, part, into);
  }
  return into;
}

function parametersOf(item, operation, place) {
  return [...(item.parameters ?? []), ...(operation.parameters ?? [])]
    .map((one) => resolve(openapi, one))
    .filter((one) => one.in === place);
}

/** "/znodes/v1/{path}" and "/znodes/v1". */
function pathsOf(route) {
  return route.endsWith('/{path}') || route.endsWith('/{id}')
    ? [route, route.slice(0, route.lastIndexOf('/'))]
    : [route];
}

/** A row about a member of the ensemble needs its id in the URL; that of a session may be elsewhere. */
function pathsOfRow(row) {
  const named = row.fields.some(({ source, name }) => source === 'path' && name === 'id');
  return named ? [row.route] : pathsOf(row.route);
}

function splitSelect(row) {
  const [parameter, value] = row.select ? row.select.split('=') : [undefined, ''];
  return { parameter, value };
}

// ---- Is each of the server's rows in the documents ----

function checkField(row, field, item, operation, place) {
  const where = field.source === 'header' ? 'header' : 'query';
  const parameter = parametersOf(item, operation, where).find((one) => one.name === field.name);
  expect(parameter, `${place}: the ${where} parameter ${field.name} is missing`);
  const schema = parameter && resolve(openapi, parameter.schema);
  if (schema?.type === 'integer' && schema.format === undefined) {
    expect(
      schema.minimum === field.min && schema.maximum === field.max,
      `${place}: ${field.name} is from ${field.min} to ${field.max}`,
    );
  }
}

function checkBody(field, operation, place) {
  const content = operation.requestBody?.content ?? {};
  if (field.data) {
    expect(content['application/octet-stream'], `${place}: takes data`);
  } else if (content['application/json']) {
    const members = membersOf(openapi, content['application/json'].schema);
    expect(members.has(field.name), `${place}: the body has ${field.name}`);
  }
}

function checkRow(row, path) {
  const item = openapi.paths[path];
  const operation = item?.[row.method.toLowerCase()];
  const place = `${row.method} ${path}`;
  const { parameter, value } = splitSelect(row);
  expect(operation, `${place} is missing`);
  if (!operation) {
    return;
  }
  const choice = operation['x-rows'];
  expect(choice?.parameter === parameter, `${place}: ${parameter} chooses`);
  expect(choice?.rows[value]?.name === row.name, `${place}: the row ${row.name} is missing`);
  for (const status of [row.status, row.status_raw].filter(Boolean)) {
    expect(operation.responses[status], `${place}: ${status} is missing`);
  }
  row.fields
    .filter(({ source }) => source === 'query' || source === 'header')
    .forEach((field) => checkField(row, field, item, operation, place));
  row.fields
    .filter(({ source }) => source === 'body')
    .forEach((field) => checkBody(field, operation, place));
}

// ---- Does the server have each documented operation ----

const EVERYWHERE = ['dataformat', 'session', 'Zk-Session', 'Zk-Min-Zxid', 'Zk-History', 'traceparent'];

function mayHave(found, choice, path) {
  const names = new Set(EVERYWHERE);
  found.flatMap((row) => row.fields).forEach(({ name }) => names.add(name));
  const add = (condition, ...more) => condition && more.forEach((name) => names.add(name));
  add(!path.includes('{'), 'path');
  add(choice.parameter, choice.parameter);
  add(
    found.some((row) => row.reads_tree),
    'consistency',
  );
  add(
    found.some((row) => row.kind === 'read'),
    'If-None-Match',
  );
  add(
    found.some((row) => row.kind === 'read' || row.kind === 'write'),
    'Prefer',
  );
  add(
    found.some((row) => row.kind === 'write' && row.name !== 'session'),
    'Idempotency-Key',
  );
  add(
    found.some((row) => ['create', 'set'].includes(row.name)),
    'Zk-Acl',
  );
  add(names.has('since'), 'Last-Event-ID', 'keepSession');
  return names;
}

function checkWritten(path, method, item, operation) {
  const choice = operation['x-rows'];
  const place = `${method} ${path}`;
  const found = Object.values(choice.rows).map(({ name }) => rows.find((row) => row.name === name));
  expect(
    found.every((row) => row && row.method === method && pathsOfRow(row).includes(path)),
    `${place}: rows that do not exist`,
  );
  const names = mayHave(found.filter(Boolean), choice, path);
  for (const parameter of [
    ...parametersOf(item, operation, 'query'),
    ...parametersOf(item, operation, 'header'),
  ]) {
    expect(names.has(parameter.name), `${place}: the server has no parameter ${parameter.name}`);
  }
}

function checkItem(path, item) {
  const socket = path === '/ws/v1';
  expect(!item.get || item.head || socket, `${path}: HEAD is missing`);
  expect(item.options || socket, `${path}: OPTIONS is missing`);
  for (const [key, operation] of Object.entries(item)) {
    if (['parameters', 'head', 'options'].includes(key)) {
      continue;
    }
    if (operation['x-rows']) {
      checkWritten(path, key.toUpperCase(), item, operation);
    } else {
      expect(
        facts.routes.some((route) => !route.operations && pathsOf(route.name).includes(path)),
        `${path}: no such route`,
      );
    }
  }
}

// ---- Messages ----

const FRAME = ['id', 'op', 'key', 'consistency', 'min_zxid', 'traceparent'];

function messageMembers(row) {
  const names = new Set(FRAME);
  for (const field of row.fields) {
    if (field.data) {
      ['data64', 'dataUtf8', 'dataJson'].forEach((name) => names.add(name));
    } else if (!field.name_of_child && !['header', 'nowhere'].includes(field.source)) {
      names.add(field.name);
    }
  }
  return names;
}

function checkMessages() {
  const spoken = rows.filter((row) => row.name !== 'check' && !row.http_only); // "check" is only inside a multi.
  const written = Object.entries(asyncapi.operations).filter(
    ([, operation]) => operation.action === 'receive',
  );
  sameSet(
    'messages',
    new Set(written.map(([name]) => name)),
    new Set(spoken.map((row) => row.name)),
  );
  for (const row of spoken) {
    const message = asyncapi.components.messages[row.name];
    if (message) {
      sameSet(`message ${row.name}`, membersOf(asyncapi, message.payload), messageMembers(row));
    }
  }
}

// ---- Elements of a multi ----

/** The operations of a schema's alternatives. */
function opsOf(schema) {
  return schema.oneOf.flatMap((branch) =>
    branch.allOf.flatMap(({ properties }) => properties?.op.enum ?? properties?.op.const ?? []),
  );
}

function checkElements() {
  const { WriteElement, ReadElement } = openapi.components.schemas;
  const written = new Set([...opsOf(WriteElement), ...opsOf(ReadElement)]);
  const built = rows.filter((row) => row.in_multi);
  sameSet('elements of a multi', written, new Set(built.map((row) => row.name)));
}

// ---- Errors ----

/**
 * Examples whose status differs from that of their code: it depends on the client or the resource.
 */
const OTHER_STATUS = ['NoAuthShown', 'ReloadFailed', 'SessionGone', 'SessionUnknown'];

function checkErrors() {
  const codes = new Set(resolve(openapi, { $ref: '#/components/schemas/Code' }).enum);
  sameSet('codes', codes, new Set(facts.errors.map((error) => error.name)));
  for (const [name, { value }] of Object.entries(openapi.components.examples)) {
    const known = facts.errors.find(
      (error) => error.name === value.code && error.title === value.title,
    );
    expect(known, `example ${name}: no such error`);
    expect(known?.zk_code === value.zk_code, `example ${name}: the number is ${known?.zk_code}`);
    expect(
      known?.status === value.status || OTHER_STATUS.includes(name),
      `example ${name}: the status is ${known?.status}`,
    );
  }
}

rows
  .filter((row) => row.route)
  .forEach((row) => pathsOfRow(row).forEach((path) => checkRow(row, path)));
facts.routes
  .flatMap((route) => pathsOf(route.name))
  .forEach((path) => expect(openapi.paths[path], `${path} is missing`));
Object.entries(openapi.paths).forEach(([path, item]) => checkItem(path, item));
checkMessages();
checkElements();
checkErrors();
console.log(
  `${rows.length} operations, ${facts.routes.length} routes, ${looked} comparisons, ${failed} failed`,
);
process.exit(failed === 0 ? 0 : 1);
