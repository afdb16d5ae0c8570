// A time-out that is put off again and again: by thousands of messages in a second, which would else make
// as many timers. The timer that runs looks when it ends whether it was put off.

export class Alarm {
  private readonly act: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ends = 0; // When the timer does.
  private due = 0; // When to act.

  constructor(act: () => void) {
    this.act = act;
  }

  /** Acts in so many ms, unless it is put off or stopped before. */
  set(ms: number): void {
    this.due = performance.now() + ms;
    if (this.timer === undefined || this.due < this.ends) {
      this.arm(ms);
    }
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private arm(ms: number): void {
    clearTimeout(this.timer);
    this.ends = performance.now() + ms;
    this.timer = setTimeout(() => this.ring(), ms);
  }

  private ring(): void {
    this.timer = undefined;
    const left = this.due - performance.now();
    if (left > 0) {
      this.arm(left);
    } else {
      this.act();
    }
  }
}
