// Evaluates the script in the working folder without k6, and prints its options and what it asked of k6.
//
//   node evaluate.mjs '{"environment": {"NAME": "value"}, "iterations": [{"user": 1, "iteration": 0, "answers": [{"status": 200, "body": "{}"}]}]}'

const { environment, iterations } = JSON.parse(process.argv[2]);
globalThis.__ENV = environment;
const folder = new URL(`file://${process.cwd()}/`);
const { noted, now } = await import(new URL('node_modules/k6/noting.js', folder));
const script = await import(new URL('seckill.mjs', folder));
const data = script.setup && script.setup();
iterations.forEach(({ user, iteration, answers }, number) => {
  Object.assign(now, { user, iteration, number, answers });
  script.default(data);
});
console.log(JSON.stringify({ options: script.options, data, ...noted }));
