// The connection to a served cluster: logs in, follows its changes, and says when it cannot.

import * as api from "./api.js";
import { $ } from "./dom.js";

const FIRST_S = 1;
const LONGEST_S = 30;
const SILENT_S = 40; // the server says something at least every 15 seconds

const sleep = (seconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, seconds * 1000);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); });
});

export class Connection {
  constructor(begun, take, say) {
    this.begun = begun; // called with the state of the cluster, when it answers
    this.take = take; // called with each message of changes
    this.say = say;
    this.running = 0;
    $("login-form").addEventListener("submit", (event) => {
      event.preventDefault();
      api.setToken($("token").value.trim());
      $("token").value = "";
      this.start();
    });
    $("again").addEventListener("click", () => this.waiting?.abort());
    addEventListener("online", () => this.waiting?.abort());
    addEventListener("hashchange", () => this.begin()); // a new link was opened in this tab
  }

  async begin() {
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (code) {
      history.replaceState(null, "", location.pathname);
      try {
        await api.login(code);
      } catch (problem) {
        if (!api.hasToken()) return this.logOut(problem.message);
      }
    }
    return api.hasToken() ? this.start() : this.logOut("");
  }

  logOut(why) {
    this.running += 1; // ends the loop of `start`
    api.setToken("");
    $("main").hidden = true;
    $("login").hidden = false;
    $("login-error").textContent = why;
    $("token").focus();
  }

  ended(problem) {
    const text = problem.code === 401 ? "This login has ended, or the server was started again: open the link that it prints now." : problem.message;
    this.logOut(text);
  }

  async start() {
    const number = (this.running += 1);
    let wait = FIRST_S;
    while (number === this.running) {
      let why = "The server has ended the connection";
      try {
        const state = await api.get("/state");
        if (number !== this.running) return;
        this.begun(state);
        await this.follow(() => {
          wait = FIRST_S;
          this.connected(true);
        });
      } catch (problem) {
        if (problem.code === 401 || problem.code === 403) {
          if (number === this.running) this.ended(problem);
          return;
        }
        why = problem.name === "AbortError" ? `The server said nothing for ${SILENT_S} seconds` : problem.code ? problem.message : "The server does not answer";
      }
      if (number !== this.running) return;
      this.connected(false);
      $("lost-why").textContent = `${why}; the page shows what it knew. It tries again in ${wait} s.`;
      this.waiting = new AbortController();
      await sleep(wait, this.waiting.signal);
      wait = Math.min(LONGEST_S, wait * 2);
    }
  }

  connected(is) {
    $("lost").hidden = is;
  }

  async follow(alive) {
    const silent = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENT_S * 1000);
    };
    heard();
    try {
      await api.follow((message) => {
        heard();
        alive();
        this.take(message);
      }, silent.signal);
    } finally {
      clearTimeout(timer);
    }
  }
}
