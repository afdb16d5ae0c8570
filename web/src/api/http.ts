// REST, for what a socket is not made for: files, histories, whole subtrees. It goes to the replica
// that the socket is at, and never shows less than was seen before.

import { ApiError } from './error';
import type { Identity, Socket } from './socket';

const ANSWER_MS = 8_000; // A replica that stands still takes connections, and never answers.

export interface HttpRequest {
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string>;
  body?: BodyInit;
  signal?: AbortSignal;
  /** host:port of another replica than the one that serves, for what only that one knows. */
  at?: string | undefined;
}

export class Http {
  private readonly socket: Socket;
  private readonly identity: () => Identity | undefined;

  constructor(socket: Socket, identity: () => Identity | undefined) {
    this.socket = socket;
    this.identity = identity;
  }

  /** The URL of a resource, at the replica that serves now unless said otherwise. */
  url(path: string, query: HttpRequest['query'] = {}, at = this.socket.replica.value): string {
    const url = new URL(path, `${location.protocol}//${at}`);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) {
        url.searchParams.set(name, String(value));
      }
    }
    return url.href;
  }

  /** Any answer that is no error; others are thrown as ApiError. */
  async send(method: string, path: string, request: HttpRequest = {}): Promise<Response> {
    const { query, headers, at, ...rest } = request;
    const response = await fetch(this.url(path, query, at), {
      ...rest,
      method,
      headers: { ...this.headers(), ...headers },
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    }).catch((error: Error) => {
      throw new ApiError({ detail: error.message });
    });
    if (!response.ok) {
      throw await problemOf(response);
    }
    return response;
  }

  async json<T>(path: string, query: HttpRequest['query'] = {}, at?: string): Promise<T> {
    return (await this.get(path, query, at)).json() as Promise<T>;
  }

  /** What is not large, and comes soon or not at all. */
  get(path: string, query: HttpRequest['query'] = {}, at?: string): Promise<Response> {
    return this.send('GET', path, { query, at, signal: AbortSignal.timeout(ANSWER_MS) });
  }

  /** What the serving replica tells everybody of itself: asked as anybody, of no state of the tree. */
  async info<T>(path: string, ms: number): Promise<T> {
    const signal = AbortSignal.timeout(ms);
    try {
      const options: RequestInit = { credentials: 'omit', cache: 'no-store', signal };
      const response = await fetch(this.url(path), options);
      if (!response.ok) {
        throw await problemOf(response);
      }
      const text = await response.text();
      return asJson<T>(text, response);
    } catch (error) {
      throw error instanceof ApiError ? error : new ApiError({ detail: (error as Error).message });
    }
  }

  private headers(): Record<string, string> {
    const history = this.socket.hello.value?.history;
    const identity = this.identity();
    return {
      ...(history ? { 'Zk-History': history, 'Zk-Min-Zxid': this.socket.zxid.value } : {}),
      ...(identity
        ? { Authorization: `Basic ${toBase64(`${identity.user}:${identity.password}`)}` }
        : {}),
    };
  }
}

function toBase64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

async function problemOf(response: Response): Promise<ApiError> {
  const problem = await response.json().catch(() => undefined);
  return new ApiError({ status: response.status, detail: response.statusText, ...problem });
}

/** A proxy may answer with a page of its own. */
function asJson<T>(text: string, { status }: Response): T {
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw new ApiError({ status, detail: (error as Error).message });
  }
}
