// The two documents and their schemas, which are made strict: answers have no unnamed member.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const documents = process.env.ZABRA_DOCUMENTS ?? '../../build/release/openapi';

export function readDocument(name) {
  return JSON.parse(readFileSync(join(documents, `${name}.json`), 'utf8'));
}

/** The server's own tables: rows, routes, errors. */
export function readFacts() {
  return JSON.parse(execFileSync(process.env.ZABRA_FACTS, { encoding: 'utf8' }));
}

/** Resolves a local reference; returns other values unchanged. */
export function resolve(document, value) {
  let found = value;
  while (found?.$ref !== undefined) {
    found = found.$ref
      .slice(2)
      .split('/')
      .reduce((at, key) => at[key], document);
  }
  return found;
}

const LISTS = ['allOf', 'anyOf', 'oneOf'];
const BRANCHES = ['if', 'then', 'else', 'not'];

function isObjectSchema(document, schema) {
  const found = resolve(document, schema);
  return found.properties !== undefined || LISTS.some((key) => found[key] !== undefined);
}

/** A schema of a whole value, in which unnamed members are errors. */
function closed(document, schema) {
  closeInside(document, schema);
  return isObjectSchema(document, schema) ? { ...schema, unevaluatedProperties: false } : schema;
}

function closeInside(document, schema) {
  for (const [name, value] of Object.entries(schema.properties ?? {})) {
    schema.properties[name] = closed(document, value);
  }
  if (schema.items) {
    schema.items = closed(document, schema.items);
  }
  for (const key of LISTS) {
    schema[key]?.forEach((branch) => closeInside(document, branch));
  }
  for (const key of BRANCHES) {
    if (schema[key]) {
      closeInside(document, schema[key]);
    }
  }
}

/** Compiles the schemas of one document. */
export class Schemas {
  /** `strict`: unnamed members are errors. */
  constructor(document, strict = true) {
    this.strict = strict;
    this.document = structuredClone(document);
    this.known = new Map();
    this.ajv = new Ajv2020({
      strict: false,
      allErrors: true,
      validateSchema: false,
      validateFormats: true,
    });
    addFormats(this.ajv);
    if (strict) {
      Object.values(this.document.components.schemas).forEach((schema) =>
        closeInside(this.document, schema),
      );
    }
    this.ajv.addSchema(this.document, 'root');
  }

  /** Errors of a value, a line each; `schema` is an unchanged one of the document. */
  check(schema, value) {
    const key = JSON.stringify(schema);
    let validate = this.known.get(key);
    if (!validate) {
      const copy = JSON.parse(key);
      validate = this.ajv.compile(this.absolute(this.strict ? closed(this.document, copy) : copy));
      this.known.set(key, validate);
    }
    return validate(value) ? [] : this.tell(validate.errors);
  }

  absolute(schema) {
    return JSON.parse(JSON.stringify(schema), (key, item) =>
      key === '$ref' && item.startsWith('#') ? `root${item}` : item,
    );
  }

  tell(errors) {
    const lines = errors.map((error) => {
      const extra = error.params.unevaluatedProperty ?? error.params.additionalProperty;
      const more = extra ? ` (${extra})` : '';
      return `${error.instancePath || 'the value'} ${error.message}${more}`;
    });
    return [...new Set(lines)];
  }
}
