// Hears of changes as they happen, over one stream of the coordinator: that something changed, not
// what; views ask for what they show. Where no stream comes through, `open` is false and the page
// asks by the clock. The stream is read by fetch: an EventSource cannot send the session's half.

import { headersOf } from "./api.js";

const AGAIN_MS = 10000; // before a stream that was refused is tried again
const RESUME_MS = 1000; // before one that broke is

export class Changes {
  constructor(heard) {
    this.heard = heard;
    this.open = false;
    this.place = "";
  }

  // Follow another place: that of a stream, "" for none.
  follow(place) {
    if (place === this.place) return;
    this.close();
    this.place = place;
    this.last = "";
    if (place) this.connect();
  }

  async connect() {
    if (typeof TextDecoderStream === "undefined") return;
    const mine = new AbortController();
    this.stream = mine;
    let ended = false, again = AGAIN_MS;
    try {
      const headers = headersOf("text/event-stream");
      if (this.last) headers["Last-Event-ID"] = this.last;
      const answer = await fetch(this.place, { headers, credentials: "same-origin", signal: mine.signal });
      if (answer.ok) {
        this.open = this.stream === mine;
        again = RESUME_MS;
        ended = await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      }
    } catch { /* broken, or closed by us */ }
    if (this.stream !== mine) return;
    this.open = ended; // then there is nothing to ask for by the clock
    this.heard();
    if (!ended) this.again = setTimeout(() => this.connect(), again);
  }

  // Until the stream is over; true: the job has ended, nothing more will change.
  async read(reader) {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) this.last = event.match(/^id: (.+)$/m)?.[1] || this.last;
      if (events.some((event) => /^event: end$/m.test(event))) return true;
      if (events.some((event) => /^data:/m.test(event))) this.heard();
    }
  }

  close() {
    clearTimeout(this.again);
    this.stream?.abort();
    this.stream = null;
    this.open = false;
    this.place = "";
  }
}
