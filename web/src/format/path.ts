// Paths of znodes.

/** "/a" of "/a/b", "/" of "/a"; "/" of itself. */
export function parentOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash <= 0 ? '/' : path.slice(0, slash);
}

/** "b" of "/a/b"; "/" of the root. */
export function nameOf(path: string): string {
  return path === '/' ? '/' : path.slice(path.lastIndexOf('/') + 1);
}

export function childOf(path: string, name: string): string {
  return path === '/' ? `/${name}` : `${path}/${name}`;
}

/** From the root to the znode itself. */
export function ancestorsOf(path: string): string[] {
  const names = path.split('/').filter((name) => name !== '');
  return ['/', ...names.map((_, at) => `/${names.slice(0, at + 1).join('/')}`)];
}

/** Below it, not it itself: "/ab" is not below "/a". */
export function isBelow(path: string, top: string): boolean {
  return path !== top && path.startsWith(top === '/' ? '/' : `${top}/`);
}

/** The order of the replicas, which is that of UTF-8: that of JavaScript is another one beyond U+D800. */
export function compareNames(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) {
    at += 1;
  }
  return (a.codePointAt(pairAt(a, at)) ?? -1) - (b.codePointAt(pairAt(b, at)) ?? -1);
}

/** Where the character begins of which the unit at `at` is a part. */
function pairAt(text: string, at: number): number {
  const low = /^[\udc00-\udfff]/.test(text.slice(at, at + 1));
  return low && at > 0 ? at - 1 : at;
}

export function isSystem(path: string): boolean {
  return path === '/zookeeper' || isBelow(path, '/zookeeper');
}
