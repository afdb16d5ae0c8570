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

export function isSystem(path: string): boolean {
  return path === '/zookeeper' || isBelow(path, '/zookeeper');
}
