// The least of a browser that the tests need, where the language alone runs them. What is not here is absent,
// and what is here throws where it would have to differ from a browser. test/platform.test.ts compares the two.

type Source<T> = { start: (controller: { enqueue: (chunk: T) => void; close: () => void; error: (reason: unknown) => void }) => void };

class ReadableStream<T> {
  private readonly chunks: T[] = [];
  private state: 'open' | 'closed' | 'errored' = 'open';
  private reason: unknown;
  private wake = (): void => {};

  constructor(source: Source<T>) {
    const change = (f: () => void): void => {
      if (this.state !== 'open') throw new TypeError(`the stream is ${this.state}`);
      f();
      this.wake();
    };
    source.start({
      enqueue: (chunk) => change(() => this.chunks.push(chunk)),
      close: () => change(() => (this.state = 'closed')),
      error: (reason) => {
        if (this.state !== 'open') return;
        change(() => {
          [this.state, this.reason] = ['errored', reason];
          this.chunks.length = 0;
        });
      },
    });
  }

  getReader(): { read: () => Promise<{ done: boolean; value: T | undefined }> } {
    return { read: () => this.read() };
  }

  private async read(): Promise<{ done: boolean; value: T | undefined }> {
    while (this.chunks.length === 0 && this.state === 'open') await new Promise<void>((wake) => (this.wake = wake));
    if (this.state === 'errored') throw this.reason;
    return { done: this.chunks.length === 0, value: this.chunks.shift() };
  }
}

type Init = { status?: number; headers?: Record<string, string> };

class Response {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: { get: (name: string) => string | null };

  constructor(readonly body: ReadableStream<Uint8Array> | string | null, init: Init = {}) {
    this.status = init.status ?? 200;
    this.ok = this.status >= 200 && this.status < 300;
    const headers = new Map(Object.entries(init.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
    this.headers = { get: (name) => headers.get(name.toLowerCase()) ?? null };
  }

  static json(value: unknown, init?: Init): Response {
    return new Response(JSON.stringify(value), init);
  }

  async json(): Promise<unknown> {
    if (typeof this.body === 'string') return JSON.parse(this.body);
    throw new TypeError('the body is no text');
  }
}

class AbortSignal {
  aborted = false;
  readonly listeners = new Set<() => void>();

  addEventListener(name: string, f: () => void): void {
    if (name !== 'abort') throw new TypeError(`a signal has no event ${name}`);
    this.listeners.add(f);
  }

  removeEventListener(_: 'abort', f: () => void): void {
    this.listeners.delete(f);
  }
}

class AbortController {
  readonly signal = new AbortSignal();

  abort(): void {
    if (this.signal.aborted) return;
    this.signal.aborted = true;
    this.signal.listeners.forEach((f) => f());
  }
}

class DOMException extends Error {
  constructor(message: string, override readonly name: string) {
    super(message);
  }
}

class TextEncoder {
  encode(text: string): Uint8Array {
    return new Uint8Array(Array.from(unescape(encodeURIComponent(text)), (c) => c.charCodeAt(0)));
  }
}

class TextDecoder {
  private rest: number[] = [];

  decode(bytes: Iterable<number> = [], { stream = false } = {}): string {
    const all = [...this.rest, ...bytes];
    const end = stream ? all.length - unfinished(all) : all.length;
    this.rest = all.slice(end);
    return decodeURIComponent(escape(String.fromCharCode(...all.slice(0, end)))); // throws if it is not UTF-8
  }
}

/** The number of bytes at the end that are the beginning of a character. */
function unfinished(bytes: number[]): number {
  for (let n = 1; n <= Math.min(3, bytes.length); n++) {
    const byte = bytes[bytes.length - n]!;
    if (byte >= 0xc0) return n < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? n : 0;
  }
  return 0;
}

export const platform = { AbortController, DOMException, ReadableStream, Response, TextDecoder, TextEncoder };
