// Compares one exchange with the contract.

import { Schemas, readDocument, resolve } from './spec.js';

// Headers that any answer may have: those of HTTP, and those for pages of listed origins.
const GENERAL_HEADERS = new Set([
  'date',
  'connection',
  'content-length',
  'content-type',
  'transfer-encoding',
  'keep-alive',
  'access-control-allow-origin',
  'access-control-expose-headers',
]);
const PROBLEM = 'application/problem+json';

/** "HTTP/1.1 200 OK" and lines of headers. */
export function parseHead(text) {
  const [first, ...lines] = text.trimEnd().split(/\r?\n/);
  const headers = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon > 0) {
      headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
    }
  }
  return { status: Number(first.split(' ')[1]), headers };
}

function parseLines(text) {
  return parseHead(`HTTP/1.1 0\r\n${text}`).headers;
}

function decodePath(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// As in http/answer.c and http/framing.c: the memory of a connection with the default maxHeadBytes
// of 8192, and the sizes of its parts.
const LOCATION_MAX = 2048;
const POOL_BYTES = 8192 + 4096;
const POOL_RESERVE_BYTES = 1536;
const ENTRY_BYTES = 64;
const LOCATION_NAME_LEN = 12;
const SEQUENCE_DIGITS = 10;
// Headers of a client besides those that a test names: Host, Content-Length, Connection ...
const OTHER_HEADERS = 8;
const OTHER_BYTES = 512;

/**
 * The longest possible Location of the answer: for the path in the answer, else for the request's
 * path.
 */
function longestLocation({ target, headers, answer }) {
  const [place, query] = target.replace(/^http:\/\/[^/]*/i, '').split('?');
  const { name, sequence } = Object.fromEntries(new URLSearchParams(query ?? ''));
  const made = /"path":("(?:[^"\\]|\\.)*")/.exec(answer.toString());
  const digits = sequence ? '0'.repeat(SEQUENCE_DIGITS) : '';
  const path = made ? `/znodes/v1${JSON.parse(made[1])}` : `${decodePath(place)}/${name ?? ''}${digits}`;
  const host = parseLines(headers ?? '').host ?? '127.0.0.1:65535';
  return `http://${host}${encodeURI(path.toWellFormed()).replace(/[?#]/g, '%00')}`.length;
}

/**
 * Location is omitted when it would be longer than 2048 bytes, or than the memory that the
 * request's head leaves: the library would send no answer at all.
 */
function mayLackLocation(found) {
  const { method, target, headers } = found;
  const entries = (headers ?? '').split(/\r?\n/).length + target.split(/[?&]/).length - 1;
  const head = Buffer.byteLength(`${method} ${target} HTTP/1.1\r\n${headers ?? ''}`) + OTHER_BYTES;
  const used = head + (entries + OTHER_HEADERS) * ENTRY_BYTES + POOL_RESERVE_BYTES;
  const room = Math.min(LOCATION_MAX, POOL_BYTES - used - LOCATION_NAME_LEN);
  return longestLocation(found) > room;
}

export class Contract {
  constructor(
    openapi = readDocument('openapi'),
    asyncapi = readDocument('asyncapi'),
    facts = null,
  ) {
    this.openapi = openapi;
    this.asyncapi = asyncapi;
    this.rest = new Schemas(openapi);
    this.messages = new Schemas(asyncapi);
    this.requests = new Schemas(asyncapi, false); // Servers ignore unknown members of a message.
    this.errors = new Map(
      (facts?.errors ?? []).map((error) => [`${error.name} ${error.title}`, error]),
    );
    this.templates = Object.keys(openapi.paths);
  }

  // ---- Which operation ----

  /** The contract's path for a target, or undefined. */
  findPath(target) {
    const path = decodePath(target.replace(/^http:\/\/[^/]*/i, '').split('?')[0]);
    const plain = path === '/sessions/v1/' ? '/sessions/v1' : path;
    return (
      this.templates.find((template) => template === plain) ??
      this.templates.find(
        (template) =>
          template.includes('{') && path.startsWith(template.slice(0, template.indexOf('{'))),
      )
    );
  }

  /** The row of the table of operations for a request. */
  rowOf({ operation, query, headers }) {
    const choice = operation['x-rows'];
    if (!choice) {
      return undefined;
    }
    const session = query.has('session') || parseLines(headers ?? '')['zk-session'] !== undefined;
    const first = Object.keys(choice.rows)[0];
    const usual = session ? first : (choice['without-session'] ?? first);
    return choice.rows[query.get(choice.parameter) ?? usual];
  }

  // ---- REST ----

  /**
   * Checks one request and its answer: { method, target, headers, body, status, answerHeaders,
   * answer, stream }, bodies as Buffer. Returns { errors, covered }, `covered` is the outcome.
   */
  checkHttp(exchange) {
    const template = this.findPath(exchange.target);
    const item = template && this.openapi.paths[template];
    const operation = item?.[exchange.method.toLowerCase()];
    const query = new URLSearchParams(exchange.target.split('?')[1] ?? '');
    const found = { ...exchange, template, item, operation, query };
    const inside = this.checkOperation(found);
    if (inside && (inside.errors.length === 0 || this.isOwn(found))) {
      return inside;
    }
    const outside = this.checkAnywhere(found);
    if (outside && outside.errors.length === 0) {
      return outside;
    }
    const place = operation
      ? operation.operationId
      : `${exchange.method} ${template ?? exchange.target}`;
    return (
      inside ?? outside ?? { errors: [`${place} has no answer ${exchange.status}`], covered: '' }
    );
  }

  /**
   * An answer of the operation itself: answers that may precede an operation do not excuse its
   * errors.
   */
  isOwn(found) {
    const response = resolve(this.openapi, found.operation.responses[found.status]);
    const examples = response.content?.[PROBLEM]?.examples;
    return found.status < 400 || Object.hasOwn(examples ?? {}, this.codeOf(found));
  }

  checkOperation(found) {
    const { operation, status } = found;
    const response = operation && resolve(this.openapi, operation.responses[status]);
    if (!response) {
      return undefined;
    }
    const row = this.rowOf(found);
    const type = (found.answerHeaders['content-type'] ?? '').split(';')[0];
    const errors = [
      ...this.checkHeaders(response, type, found),
      ...this.checkBody(response, type, row, found),
      ...(row?.etag && status < 300 ? this.checkTag(row, found) : []),
      ...(status < 400 ? this.checkRequest(found) : []),
    ];
    const code = type === PROBLEM ? this.codeOf(found) : (row?.name ?? '');
    return {
      errors: errors.map((line) => `${operation.operationId} ${status}: ${line}`),
      covered: `${found.method} ${found.template} ${status} ${code}`.trim(),
    };
  }

  codeOf({ answer, method }) {
    if (method === 'HEAD' || answer.length === 0) {
      return '';
    }
    try {
      return JSON.parse(answer.toString()).code;
    } catch {
      return '';
    }
  }

  checkHeaders(response, type, found) {
    const { answerHeaders } = found;
    const errors = [];
    const names = new Map(
      Object.entries(response.headers ?? {}).map(([name, header]) => [
        name.toLowerCase(),
        resolve(this.openapi, header),
      ]),
    );
    for (const [name, header] of names) {
      const value = answerHeaders[name];
      const wanted = header.required || (type !== '' && header['x-required-with'] === type);
      if (value === undefined && wanted && !(name === 'location' && mayLackLocation(found))) {
        errors.push(`the header ${name} is missing`);
      } else if (value !== undefined) {
        errors.push(
          ...this.rest.check(header.schema, value).map((line) => `${name}: ${line}: ${value}`),
        );
      }
    }
    for (const name of Object.keys(answerHeaders)) {
      if (!names.has(name) && !GENERAL_HEADERS.has(name)) {
        errors.push(`the header ${name} is not in the contract`);
      }
    }
    return errors;
  }

  checkBody(response, type, row, found) {
    const { answer, method, status, stream } = found;
    if (method === 'HEAD' || stream) {
      return []; // The events of a stream are recorded one by one.
    }
    if (!response.content || (answer.length === 0 && type === '')) {
      return answer.length > 0 ? ['there is a body'] : [];
    }
    const media = response.content[type];
    if (!media) {
      return [`the type ${type || 'of the answer'} is not in the contract`];
    }
    if (media['x-lines']) {
      return this.checkText(media, answer);
    }
    if (type.endsWith('json')) {
      const errors = this.checkJson(
        row && status < 300 && row.answer ? row.answer : media.schema,
        answer,
        this.rest,
      );
      return type === PROBLEM ? [...errors, ...this.checkProblem(found)] : errors;
    }
    return type.startsWith('text/') ? this.rest.check(media.schema, answer.toString()) : [];
  }

  checkJson(schema, bytes, schemas) {
    let value;
    try {
      value = JSON.parse(bytes.toString());
    } catch (error) {
      return [`it is not JSON: ${error.message}`];
    }
    return schemas.check(schema, value);
  }

  /** Repeated information must agree. */
  checkProblem({ answer, status, answerHeaders }) {
    let problem;
    try {
      problem = JSON.parse(answer.toString());
    } catch {
      return [];
    }
    const errors = this.checkNames(problem);
    if (problem.status !== status) {
      errors.push(`the problem has the status ${problem.status}`);
    }
    if ((problem.retry_after_ms !== undefined) !== (answerHeaders['retry-after'] !== undefined)) {
      errors.push('Retry-After and retry_after_ms do not go together');
    }
    if (problem.zxidHex !== answerHeaders['zk-zxid']) {
      errors.push('Zk-Zxid is not the zxid of the problem');
    }
    return errors;
  }

  checkNames(problem) {
    const errors =
      problem.type === `urn:zabra:problem:${problem.code}`
        ? []
        : ['the type does not fit the code'];
    if (this.errors.size > 0) {
      const known = this.errors.get(`${problem.code} ${problem.title}`);
      if (!known) {
        errors.push(`the title "${problem.title}" does not fit ${problem.code}`);
      } else if (known.zk_code !== problem.zk_code) {
        errors.push(`the number of ${problem.code} is ${known.zk_code}`);
      }
    }
    return errors;
  }

  checkTag(row, { answerHeaders }) {
    const tag = answerHeaders.etag;
    return tag?.startsWith(`"${row.etag}`) ? [] : [`the ETag is ${tag ?? 'missing'}`];
  }

  /** Accepted parameters and bodies must be in the contract, too. */
  checkRequest({ item, operation, query, headers, body }) {
    if (operation['x-any-parameters']) {
      return [];
    }
    const known = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((one) =>
      resolve(this.openapi, one),
    );
    const errors = [];
    for (const [name, value] of query) {
      const parameter = known.find((one) => one.in === 'query' && one.name === name);
      errors.push(
        ...(parameter
          ? this.checkParameter(parameter, value)
          : [`the parameter ${name} is not in the contract`]),
      );
    }
    const given = parseLines(headers ?? '');
    for (const parameter of known.filter((one) => one.in === 'header')) {
      const value = given[parameter.name.toLowerCase()];
      errors.push(...(value === undefined ? [] : this.checkParameter(parameter, value)));
    }
    const type = (given['content-type'] ?? '').split(';')[0];
    if (body?.length > 0 && type.endsWith('json')) {
      errors.push(...this.checkRequestBody(operation.requestBody?.content ?? {}, type, body));
    }
    return errors;
  }

  /** JSON may also be sent as data where the operation accepts any type. */
  checkRequestBody(content, type, body) {
    if (content[type]) {
      return this.checkText(content[type], body).map((line) => `request: ${line}`);
    }
    return content['*/*'] ? [] : ['the body of the request is not in the contract'];
  }

  /** JSON, or lines of it. */
  checkText(media, bytes) {
    if (!media['x-lines']) {
      return this.checkJson(media.schema, bytes, this.rest);
    }
    return bytes
      .toString()
      .split('\n')
      .filter((line) => line.trim() !== '')
      .flatMap((line) =>
        this.checkJson(media['x-lines'], Buffer.from(line), this.rest).map(
          (error) => `line: ${error}`,
        ),
      );
  }

  checkParameter(parameter, text) {
    const schema = resolve(this.openapi, parameter.schema);
    const value = schema.type === 'integer' ? Number(text) : text;
    return this.rest
      .check(parameter.schema, value)
      .map((line) => `${parameter.name}=${text}: ${line}`);
  }

  /** Answers that are sent before the operation is known. */
  checkAnywhere(found) {
    const { status, answerHeaders, answer, method } = found;
    const outcome = this.openapi['x-anywhere'][status];
    if (!outcome) {
      return undefined;
    }
    const needed = ['zk-zxid', 'zk-history', 'cache-control', ...(outcome.headers ?? [])].map(
      (name) => name.toLowerCase(),
    );
    const errors = needed
      .filter((name) => answerHeaders[name] === undefined)
      .map((name) => `the header ${name} is missing`);
    const code = this.codeOf(found);
    if (method !== 'HEAD' && !found.stream) {
      errors.push(...this.checkJson({ $ref: '#/components/schemas/Problem' }, answer, this.rest));
      errors.push(...this.checkProblem(found));
      if (!outcome.codes.includes(code)) {
        errors.push(`the code ${code} is not in the contract`);
      }
    }
    const place = `${method} ${found.template ?? found.target.split('?')[0]}`;
    return {
      errors: errors.map((line) => `${place} ${status}: ${line}`),
      covered: `anywhere ${status} ${code}`,
    };
  }

  // ---- Messages ----

  messageSchema(name) {
    return resolve(this.asyncapi, this.asyncapi.components.messages[name]).payload;
  }

  /** Checks a message of a client that was answered with success. */
  checkSent(text, op) {
    const errors = this.checkJson(this.messageSchema(op), text, this.requests);
    return { errors: errors.map((line) => `request ${op}: ${line}`), covered: '' };
  }

  /** Checks a message of the server; `op` is that of the request, if known. */
  checkReceived(text, op) {
    let message;
    try {
      message = JSON.parse(text.toString());
    } catch (error) {
      return { errors: [`a message is not JSON: ${error.message}`], covered: '' };
    }
    const name = this.nameOf(message, op);
    if (message.ok === true && op === '') {
      return { errors: [], covered: '' }; // The record does not name its request.
    }
    if (!name) {
      return { errors: [`no such message: ${text}`], covered: '' };
    }
    const errors = this.messages.check(this.messageSchema(name), message);
    if (message.error) {
      errors.push(...this.checkNames(message.error));
    }
    const outcome = message.error ? `${op} ${message.error.code}` : name;
    return { errors: errors.map((line) => `${outcome}: ${line}`), covered: `socket ${outcome}` };
  }

  nameOf(message, op) {
    if (message.event?.startsWith('Node')) {
      return 'changeEvent';
    }
    const name = message.event
      ? `${message.event}Event`
      : message.ok === false
        ? 'error'
        : `${op}Reply`;
    return this.asyncapi.components.messages[name] ? name : undefined;
  }

  /** An event of a stream; `name` and `id` are of server-sent events. */
  checkEvent(text, name, id) {
    const event = JSON.parse(text.toString()).event;
    const key = event.startsWith('Node') ? 'change' : event === 'watch' ? 'begin' : event;
    const message = this.asyncapi.channels.stream.messages[key];
    const errors = message
      ? this.checkJson(resolve(this.asyncapi, message).payload, text, this.messages)
      : ['is not in the contract'];
    if (name !== undefined && name !== event) {
      errors.push(`the name is ${name}`);
    }
    if (id !== undefined && !/^[0-9a-f]{16}:0x[0-9a-f]+$/.test(id)) {
      errors.push(`the id is ${id}`);
    }
    return { errors: errors.map((line) => `event ${event}: ${line}`), covered: `stream ${event}` };
  }

  checkClosed(code) {
    const known = this.asyncapi.channels.socket['x-close-codes'][code] !== undefined;
    return { errors: known ? [] : [`a socket was closed with ${code}`], covered: `closed ${code}` };
  }
}
