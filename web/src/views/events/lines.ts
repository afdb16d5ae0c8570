// The newest lines, up to a bound: one more costs the same, however many there are.

export class Newest<T> {
  private readonly max: number;
  private readonly places: (T | undefined)[] = []; // A ring, once all of them are taken.
  private first = 0; // Where the oldest is.
  private count = 0;

  constructor(max: number) {
    this.max = max;
  }

  get length(): number {
    return this.count;
  }

  /** The oldest is 0. */
  at(index: number): T | undefined {
    return index < this.count ? this.places[(this.first + index) % this.max] : undefined;
  }

  /** What had to make room; undefined: nothing. */
  push(item: T): T | undefined {
    const oldest = this.count === this.max ? this.shift() : undefined;
    this.places[(this.first + this.count) % this.max] = item;
    this.count += 1;
    return oldest;
  }

  /** Takes the oldest away. */
  shift(): T | undefined {
    const oldest = this.at(0);
    if (this.count > 0) {
      this.places[this.first] = undefined;
      this.first = (this.first + 1) % this.max;
      this.count -= 1;
    }
    return oldest;
  }

  clear(): void {
    this.places.length = 0;
    this.first = 0;
    this.count = 0;
  }

  /** All of them, the oldest first. */
  list(): T[] {
    return Array.from({ length: this.count }, (_, index) => this.at(index) as T);
  }
}
