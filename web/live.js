// Hears of changes as they happen, over one stream of the coordinator: that something changed, not
// what; views ask for what they show. Where no stream comes through, `open` is false and the page
// asks by the clock.

const AGAIN_MS = 10000; // before a stream that was refused is tried again

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
    if (place) this.connect();
  }

  connect() {
    if (typeof EventSource === "undefined") return;
    const stream = new EventSource(this.place);
    const heard = () => this.heard();
    this.stream = stream;
    stream.onopen = () => {
      this.open = true;
    };
    stream.onmessage = heard;
    stream.addEventListener("job", heard);
    stream.addEventListener("end", () => { // the job has ended: nothing more will change
      heard();
      stream.close();
    });
    stream.onerror = () => {
      this.open = false;
      heard();
      if (stream.readyState === EventSource.CLOSED) this.again = setTimeout(() => this.connect(), AGAIN_MS);
    };
  }

  close() {
    clearTimeout(this.again);
    this.stream?.close();
    this.stream = null;
    this.open = false;
    this.place = "";
  }
}
