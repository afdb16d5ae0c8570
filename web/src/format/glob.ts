// What a name is like, as the replica understands the `name` of a search that ignores the case.

/** Whether it is more than text that a name may hold. */
export function isPattern(text: string): boolean {
  return /[*?\\]/.test(text);
}

/** With a star, a question mark or a backslash `pattern` stands for the whole name, else for a part. */
export function fits(name: string, pattern: string): boolean {
  if (!isPattern(pattern)) {
    return name.toLowerCase().includes(pattern.toLowerCase());
  }
  const source = pattern.replace(
    /\\(.)|[\\^$.*+?()[\]{}|/]/gsu,
    (part, taken: string | undefined) => {
      if (taken !== undefined) {
        return quoted(taken);
      }
      return part === '*' ? '.*' : part === '?' ? '.' : quoted(part);
    },
  );
  return new RegExp(`^${source}$`, 'isu').test(name);
}

function quoted(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/u, '\\$&');
}
