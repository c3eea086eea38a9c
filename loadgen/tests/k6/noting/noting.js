// What a script asks of k6 is noted here, and nothing is sent. evaluate.mjs says who asks, and what the answer is.

export const noted = { requests: [], metrics: {}, checks: [], slept_s: [] };
export const now = { user: 0, iteration: 0, number: 0, answers: [] };

class Metric {
  constructor(name) {
    this.values = noted.metrics[name] = [];
  }

  add(value) {
    this.values.push(Number(value));
  }
}

export { Metric as Counter, Metric as Rate, Metric as Trend };

export function check(value, checks) {
  noted.checks.push(Object.values(checks).every((holds) => holds(value)));
}

export function sleep(seconds) {
  noted.slept_s.push(seconds);
}

// Of k6/http and of k6/execution alike.
export default {
  expectedStatuses: (...statuses) => statuses,
  get(url, params) {
    noted.requests.push({ url, params });
    const { status, body } = now.answers.shift();
    return { status, json: (field) => JSON.parse(body)[field] };
  },
  vu: {
    get idInTest() {
      return now.user;
    },
    get iterationInScenario() {
      return now.iteration;
    },
  },
  scenario: {
    get iterationInTest() {
      return now.number;
    },
  },
};
