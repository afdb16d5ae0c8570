// JSON, indented without being read: numbers keep all their digits, and members their order.

const INDENT = '  ';
const ADDED_MAX = 4 << 20; // Characters of space; what is nested by the thousand gets no more.

export function isJson(text: string): boolean {
  const start = text.trimStart()[0];
  if (start !== '{' && start !== '[') {
    return false; // A lone number or word is text to people.
  }
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** `text` must be JSON. The part after the first lines, more than a person reads, stays in one line. */
export function indentJson(text: string): string {
  const out: string[] = [];
  let depth = 0;
  let added = 0;
  const line = () => {
    if (added < ADDED_MAX) {
      added += 1 + INDENT.length * depth;
      out.push(`\n${INDENT.repeat(depth)}`);
    }
  };
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs) ?? [];
  tokens.forEach((token, at) => {
    const empty = isEnd(tokens[at + 1]) && isStart(token);
    if (isEnd(token)) {
      depth -= 1;
      if (!isStart(tokens[at - 1])) {
        line();
      }
    }
    out.push(token === ':' ? ': ' : token);
    if (isStart(token)) {
      depth += 1;
    }
    if (token === ',' || (isStart(token) && !empty)) {
      line();
    }
  });
  return out.join('');
}

function isStart(token: string | undefined): boolean {
  return token === '{' || token === '[';
}

function isEnd(token: string | undefined): boolean {
  return token === '}' || token === ']';
}
