// What this browser remembers: how things look, never what is looked at, and no secrets.

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
