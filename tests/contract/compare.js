// Finds the changes from one contract to the next that break a correct client.
//
// Requests may only become less restricted; answers may only become more exact, or get more
// members. New errors break no client, because clients must expect unknown ones.

import { resolve } from './spec.js';

const DEPTH_MAX = 24;
const SENT = 'sent';
const RECEIVED = 'received';

/** All keywords of a schema, with its parts merged. */
function flatten(document, schema, depth = 0) {
  const found = resolve(document, schema ?? {});
  const flat = {
    ...found,
    properties: { ...found.properties },
    required: [...(found.required ?? [])],
  };
  for (const part of depth < DEPTH_MAX ? (found.allOf ?? []) : []) {
    const more = flatten(document, part, depth + 1);
    flat.properties = { ...flat.properties, ...more.properties };
    flat.required.push(...more.required);
    for (const key of ['type', 'enum', 'const', 'pattern', 'minimum', 'maximum', 'items']) {
      flat[key] ??= more[key];
    }
  }
  return flat;
}

class Comparison {
  constructor(before, after) {
    this.before = before;
    this.after = after;
    this.breaks = [];
  }

  report(place, text) {
    this.breaks.push(`${place}: ${text}`);
  }

  /** `way`: whether clients send or receive such a value. */
  schemas(place, old, now, way, depth = 0) {
    const a = flatten(this.before, old);
    const b = flatten(this.after, now);
    if (
      JSON.stringify(a.type) !== JSON.stringify(b.type) &&
      !(way === SENT && b.type === undefined)
    ) {
      this.report(place, `the type was ${a.type ?? 'any'} and is ${b.type ?? 'any'}`);
      return;
    }
    this.words(place, a, b, way);
    this.bounds(place, a, b, way);
    this.members(place, a, b, way, depth);
    if (a.items && b.items && depth < DEPTH_MAX) {
      this.schemas(`${place}[]`, a.items, b.items, way, depth + 1);
    }
  }

  words(place, a, b, way) {
    const of = (schema) => schema.enum ?? (schema.const !== undefined ? [schema.const] : undefined);
    const [narrow, wide] = way === SENT ? [of(b), of(a)] : [of(a), of(b)];
    if (narrow && !wide) {
      this.report(
        place,
        way === SENT ? 'only some words are accepted now' : 'there may be any word now',
      );
    }
    (wide ?? [])
      .filter((word) => narrow && !narrow.includes(word))
      .forEach((word) =>
        this.report(place, way === SENT ? `"${word}" is not accepted any more` : `"${word}" is new`),
      );
  }

  bounds(place, a, b, way) {
    const wider = (from, to, sign) =>
      to === undefined || (from !== undefined && sign * to >= sign * from);
    for (const [key, sign] of [
      ['maximum', 1],
      ['maxLength', 1],
      ['minimum', -1],
      ['minLength', -1],
    ]) {
      const holds = way === SENT ? wider(a[key], b[key], sign) : wider(b[key], a[key], sign);
      if (!holds) {
        this.report(place, `${key} was ${a[key] ?? 'none'} and is ${b[key] ?? 'none'}`);
      }
    }
  }

  members(place, a, b, way, depth) {
    for (const [name, schema] of Object.entries(a.properties)) {
      if (!b.properties[name]) {
        this.report(`${place}.${name}`, 'is gone');
      } else if (depth < DEPTH_MAX) {
        this.schemas(`${place}.${name}`, schema, b.properties[name], way, depth + 1);
      }
    }
    const [must, had] = way === SENT ? [b.required, a.required] : [a.required, b.required];
    must
      .filter((name) => !had.includes(name) && a.properties[name] && b.properties[name])
      .forEach((name) =>
        this.report(`${place}.${name}`, way === SENT ? 'must be there now' : 'may be missing now'),
      );
    if (way === SENT) {
      b.required
        .filter((name) => !a.properties[name])
        .forEach((name) => this.report(`${place}.${name}`, 'must be there now'));
    }
  }

  // ---- REST ----

  parameters(place, old, now) {
    const list = (document, operation) =>
      (operation.parameters ?? []).map((one) => resolve(document, one));
    const before = list(this.before, old);
    const after = list(this.after, now);
    for (const one of before) {
      const same = after.find(({ in: where, name }) => where === one.in && name === one.name);
      if (same) {
        this.schemas(`${place} ${one.name}`, one.schema, same.schema, SENT);
      } else {
        this.report(place, `the parameter ${one.name} is gone`);
      }
    }
    after
      .filter(
        (one) =>
          one.required &&
          !before.find(
            ({ in: where, name, required }) => where === one.in && name === one.name && required,
          ),
      )
      .forEach((one) => this.report(place, `the parameter ${one.name} is required now`));
  }

  contents(place, old, now, way) {
    for (const [type, media] of Object.entries(old ?? {})) {
      if (now?.[type]) {
        this.schemas(`${place} ${type}`, media.schema, now[type].schema, way);
      } else {
        this.report(place, `the type ${type} is gone`);
      }
    }
  }

  headers(place, old, now) {
    for (const [name, reference] of Object.entries(old ?? {})) {
      const before = resolve(this.before, reference);
      const after = now?.[name] && resolve(this.after, now[name]);
      if (!after) {
        this.report(place, `the header ${name} is gone`);
      } else if (before.required && !after.required) {
        this.report(place, `the header ${name} may be missing now`);
      }
    }
  }

  responses(place, old, now) {
    for (const [status, reference] of Object.entries(old)) {
      const before = resolve(this.before, reference);
      const after = now[status] && resolve(this.after, now[status]);
      if (after) {
        this.headers(`${place} ${status}`, before.headers, after.headers);
        this.contents(`${place} ${status}`, before.content, after.content, RECEIVED);
      } else if (Number(status) < 400) {
        this.report(place, `${status} is gone`);
      }
    }
    Object.keys(now)
      .filter((status) => Number(status) < 400 && !old[status])
      .forEach((status) => this.report(place, `${status} is new`));
  }

  rest() {
    for (const [path, item] of Object.entries(this.before.paths)) {
      const now = this.after.paths[path];
      if (!now) {
        this.report(path, 'is gone');
        continue;
      }
      this.parameters(path, item, now);
      for (const [method, operation] of Object.entries(item).filter(
        ([key]) => key !== 'parameters',
      )) {
        const place = `${method.toUpperCase()} ${path}`;
        if (now[method]) {
          this.parameters(place, operation, now[method]);
          this.contents(
            place,
            operation.requestBody?.content,
            now[method].requestBody?.content,
            SENT,
          );
          this.responses(place, operation.responses, now[method].responses);
        } else {
          this.report(place, 'is gone');
        }
      }
    }
  }

  // ---- Messages ----

  messages() {
    const sent = new Set(
      Object.entries(this.before.operations)
        .filter(([, { action }]) => action === 'receive')
        .map(([name]) => name),
    );
    for (const [name, message] of Object.entries(this.before.components.messages)) {
      const now = this.after.components.messages[name];
      if (now) {
        this.schemas(`message ${name}`, message.payload, now.payload, sent.has(name) ? SENT : RECEIVED);
      } else {
        this.report(`message ${name}`, 'is gone');
      }
    }
  }
}

/** Returns a line for each breaking change. */
export function breaksOf(before, after) {
  const comparison = new Comparison(before, after);
  if (before.openapi) {
    comparison.rest();
  } else {
    comparison.messages();
  }
  return comparison.breaks;
}
