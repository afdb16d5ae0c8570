// What this browser remembers: how things look, what the user has marked to come back to, and no
// secrets.

const PREFIX = 'zabra.';

export function recall<T extends string>(name: string, allowed: readonly T[]): T | undefined {
  try {
    const value = localStorage.getItem(PREFIX + name);
    return allowed.find((one) => one === value);
  } catch {
    return undefined; // Storage is switched off.
  }
}

export function store(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Then it is forgotten.
  }
}

/** What was remembered, whatever has become of it; undefined: nothing. */
export function remembered(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? 'null') ?? undefined;
  } catch {
    return undefined;
  }
}

export function remember(name: string, value: unknown): void {
  store(name, JSON.stringify(value));
}
