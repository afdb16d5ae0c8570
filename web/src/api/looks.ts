// Looking again at what has changed: changes that come together are looked at together, what changes all
// the time now and then, nothing twice at a time, and nothing while the page is hidden.

const REST_SHARE = 4; // What takes long is followed by a rest so many times as long.

/** Whether anybody looks at what is read. */
export interface Seen {
  isSeen(): boolean;
  /** `act` is called when that may have changed, until the returned function is. */
  follow(act: () => void): () => void;
}

export const always: Seen = { isSeen: () => true, follow: () => () => undefined };

export interface Pace {
  /** ms from the first change until it is looked at, with those that come meanwhile. */
  settle: number;
  /** ms from the beginning of one look to that of the next. */
  rest: number;
}

export class Looks {
  private readonly look: () => Promise<void>;
  private readonly pace: Pace;
  private readonly seen: Seen;
  private readonly unfollow: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private next = 0; // Not before this time.
  private looking = false;
  private stale = false; // Something has changed that no look to come is known for.
  private ended = false;

  /** `look` does not throw. */
  constructor(look: () => Promise<void>, pace: Pace, seen: Seen = always) {
    this.look = look;
    this.pace = pace;
    this.seen = seen;
    this.unfollow = seen.follow(() => this.catchUp());
  }

  /** Something has changed. */
  soon(): void {
    if (this.ended || this.looking || !this.seen.isSeen()) {
      this.stale = true;
      return;
    }
    const wait = Math.max(this.pace.settle, this.next - Date.now());
    this.timer ??= setTimeout(() => void this.run(), wait);
  }

  stop(): void {
    this.ended = true;
    clearTimeout(this.timer);
    this.unfollow();
  }

  private async run(): Promise<void> {
    const begun = Date.now();
    this.timer = undefined;
    this.looking = true;
    this.stale = false;
    await this.look();
    this.looking = false;
    this.next = begun + Math.max(this.pace.rest, (REST_SHARE + 1) * (Date.now() - begun));
    this.catchUp();
  }

  private catchUp(): void {
    if (this.stale) {
      this.stale = false;
      this.soon();
    }
  }
}
