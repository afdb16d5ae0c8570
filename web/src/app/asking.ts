// How the serving replica and the ensemble are, asked in the way that answers. By REST where that can be: on
// the socket an answer comes behind a write that waits for a quorum. But a proxy may send REST to another
// replica than the socket is at, want a login for it, or not let it through: then by the socket.

import type { ApiError } from '../api/error';
import type { Http } from '../api/http';
import type { Socket } from '../api/socket';
import type { Ensemble, Hello, Status } from '../api/types';
import { LATE_MS } from './condition';

export type Answers = [Status, Ensemble];

export class Asking {
  private readonly http: Pick<Http, 'info'>;
  private readonly socket: Pick<Socket, 'read'>;
  private answered: Hello | undefined; // The connection beside which the same replica has answered REST.
  private useless: Hello | undefined; // The one beside which REST is not asked any more.

  constructor(http: Pick<Http, 'info'>, socket: Pick<Socket, 'read'>) {
    this.http = http;
    this.socket = socket;
  }

  /** `hello`: of the connection that there is. */
  async ask(hello: Hello): Promise<Answers> {
    return (this.useless === hello ? undefined : await this.byRest(hello)) ?? this.bySocket();
  }

  /** undefined: it is to be asked by the socket. */
  private async byRest(hello: Hello): Promise<Answers | undefined> {
    try {
      const [one, all] = await Promise.all([
        this.http.info<Status>('/status/v1', LATE_MS),
        this.http.info<Ensemble>('/ensemble/v1', LATE_MS),
      ]);
      if (one.id === hello.server && all.seen_by === hello.server) {
        this.answered = hello;
        return [one, all];
      }
      this.useless = hello;
    } catch (error) {
      this.failed(hello, error as ApiError);
    }
    return undefined;
  }

  /** A status may be of this time alone, as 429 is. No answer at all, where there was one before, is of a
   * replica that stands still: the socket would only wait for it, too. */
  private failed(hello: Hello, error: ApiError): void {
    if (error.status !== 0) {
      return;
    }
    if (this.answered === hello) {
      throw error;
    }
    this.useless = hello;
  }

  private async bySocket(): Promise<Answers> {
    const [one, all] = await Promise.all([
      this.socket.read('status'),
      this.socket.read('ensemble'),
    ]);
    return [one.status, all.ensemble];
  }
}
