// The page: an image, two sliders, and what the service says about them.

import { drawCurve, drawHistogram, drawPixels } from "./chart.js";
import { ask, events, Refused, useKey } from "./client.js";
import { readImage } from "./upload.js";
import { answer, classParts, classText, floorDecimals, grouped, hearsay, seeding, sentence, shapeText, surely, symbols, thresholdText, trimmed } from "./wording.js";

const FIRST_COPIES = 1_000; // for the sample that the page begins with
const OFFERED_COPIES = [1_000, 10_000, 100_000];

const by = (id) => document.getElementById(id);
const radius = by("radius"), confidence = by("confidence"), measureChoice = by("measure"), copiesWanted = by("copies-wanted");
const UNTIL_COPIES = by("copies-words").textContent, UNTIL_COUNTED = by("histogram-words").textContent;

const state = {
  model: null,
  input: null, // {body, type}: what is sent
  about: "", // what the verdict is about, for those who listen
  reading: null, // the file that is being read
  badge: { kind: "", text: "" }, // of the verdict; while a file is read, another is shown
  view: null, // the last certificate, as the service shows it
  earlier: [], // certificates of earlier looks, whose lower bounds stay visible
  counted: null, // how many copies the histograms are of, and what each measure's looks like
  copies: [], // single copies, with the value of each measure
  decision: null,
  sure: "", // how sure a decision is, in words
  asked: null, // the question that a decision is about
  exported: null,
  fromFile: false, // whether what is shown was read, not sampled here
  running: null, // {abort, id, copies}
};

const classOf = (number) => classText(number, state.model.labels);
const whoOf = (number) => classParts(number, state.model.labels);
const radiusAt = (k) => state.model.noise.scale * 4 * k / 400;
const radii = () => (state.view ? state.view.radii : Array.from({ length: 401 }, (_, k) => radiusAt(k)));
const onlyQuestion = () => document.querySelector("input[name=mode]:checked").value === "question";
const named = (measures, name) => measures.find((each) => each.name === name);
// What can be chosen: a certificate's own measures, or what the model counts.
const measures = () => (state.view || state.model).measures;
const chosen = () => named(measures(), measureChoice.value) || measures()[0];

// What is shown

function render() {
  offerMeasures();
  const k = Number(radius.value), measure = chosen(), at = thresholdAt(measure);
  const shown = trimmed(radii()[k], 4), asked = thresholdText(measure, at);
  by("radius-out").textContent = shown;
  by("confidence-out").textContent = asked;
  radius.setAttribute("aria-valuetext", `radius ${shown}`);
  confidence.setAttribute("aria-valuetext", `average ${measure.title} of ${asked}`);
  const missing = state.view ? `the average ${measure.title} is not on this certificate` : "";
  const elsewhere = state.decision && state.fromFile && moved(k, at); // the lines would be about another question
  const note = state.decision ? `only the question was asked: there is no curve${elsewhere ? "; the sliders stand elsewhere" : ""}` : missing;
  const ghosts = state.earlier.map((view) => named(view.measures, measure.name).curve).filter(Boolean).map((curve) => curve.lower);
  const { label_radius: labelRadius } = state.view || {};
  drawCurve(by("chart"), by("chart-key"), { curve: measure.curve, title: measure.title, labelRadius, ghosts, radii: radii(), norm: symbols((state.view || state.model).noise.norm), k: elsewhere ? null : k, support: measure.support, threshold: elsewhere ? null : measure.at_least[at], note });
  if (state.view) showCertificate(measure, k, at);
  else if (state.decision) showDecision(k, at);
  showHistogram();
  showCopies();
}

function offerMeasures() {
  const names = measures().map((each) => each.name), offered = [...measureChoice.options].map((each) => each.value);
  if (names.join() === offered.join()) return;
  const wanted = chosen().name;
  measureChoice.replaceChildren(...measures().map(({ name, title }) => {
    const option = document.createElement("option");
    option.value = name;
    option.textContent = `average ${title}`;
    option.selected = name === wanted;
    return option;
  }));
}

// The slider's place among a measure's thresholds; a measure with fewer of them keeps the slider where it is, in proportion.
function thresholdAt(measure) {
  const count = measure.at_least.length;
  if (Number(confidence.max) !== count) {
    const part = Number(confidence.value) / (Number(confidence.max) + 1);
    confidence.max = count;
    confidence.value = Math.min(count, Math.max(1, Math.round(part * (count + 1))));
  }
  return Number(confidence.value) - 1;
}

function showCertificate(measure, k, at) {
  const { view } = state;
  if (!measure.curve) {
    say([...whoOf(view.predicted), `: nothing is promised about the average ${measure.title}, on which no alpha was spent. Certify again to ask for it.`]);
    for (const id of ["answer", "sure"]) by(id).textContent = "";
    return;
  }
  say(sentence(view, measure, k, whoOf(view.predicted)));
  const found = answer(view, measure, k, at);
  by("answer").textContent = found.text;
  by("answer").className = found.yes ? "yes" : "no";
  by("sure").textContent = surely(view, measure, k) + (state.fromFile ? hearsay(view) : "");
}

// Whether the sliders stand elsewhere than at the question that was decided.
function moved(k, at) {
  const { asked } = state;
  return !asked || asked.k !== k || asked.at !== at || asked.measure !== chosen().name;
}

function showDecision(k, at) {
  const { decision } = state;
  if (state.fromFile) {
    const { title } = named(state.model.measures, decision.measure) || { title: decision.measure };
    say(["A decision from a file, about an average ", title, " of ", ["strong", decision.at_least], " within radius ", ["strong", decision.radius], ": it holds no counts, so nothing here was checked."]);
    by("answer").textContent = `The file says: ${decision.reason}`;
    by("answer").className = "";
    by("sure").textContent = "";
    return;
  }
  const what = `the average ${named(state.model.measures, decision.measure).title}`, claim = [["strong", trimmed(decision.at_least, 4)], "."];
  const where = [...whoOf(decision.predicted), ": within radius ", ["strong", trimmed(decision.radius, 4)]];
  if (decision.certified) say(["Yes. ", ...where, ` nobody can push ${what} below `, ...claim]);
  else say([...where, ` somebody might push ${what} below `, ...claim]);
  by("answer").textContent = decision.reason;
  by("answer").className = decision.certified ? "yes" : "no";
  by("sure").textContent = moved(k, at)
    ? "The sliders have moved since, or the measure: this answer is about the question that was fixed before sampling. Ask again, or certify the whole curve."
    : decision.certified
      ? `True with probability at least ${state.sure}, although the sampling stopped as soon as it knew.`
      : "Giving up certifies nothing, neither that it can be done nor that it cannot.";
}

function say(parts) {
  by("sentence").replaceChildren(...parts.map((part) => {
    if (typeof part === "string") return part;
    const node = document.createElement(part[0]);
    node.textContent = part[1];
    return node;
  }));
}

// For those who listen: only when something has come to rest, not at every step of a slider.
function speak() {
  by("spoken").textContent = `${state.about}. ${by("sentence").textContent} ${by("answer").textContent}`;
}

function badge(kind, text) {
  state.badge = { kind, text };
  showBadge();
}

function showBadge() {
  const { kind, text } = state.reading && !state.running ? { kind: "busy", text: "reading" } : state.badge;
  by("state").hidden = !text;
  by("state").className = `badge ${kind}`;
  by("state").textContent = text;
}

function trouble(text) {
  by("problem").hidden = !text;
  by("problem").textContent = text;
}

function buttons() {
  by("go").disabled = !state.input;
  by("go").textContent = state.view || state.decision ? "Certify again" : "Certify";
  by("stop").disabled = !state.running;
  by("export").disabled = Boolean(!state.exported || state.running || state.reading);
  showBadge();
}

// Everything that is about the former input goes: no number stands beside the name of another one.
function forget() {
  cancel();
  Object.assign(state, { reading: null, view: null, earlier: [], counted: null, copies: [], decision: null, exported: null, fromFile: false, asked: null });
  for (const id of ["sentence", "answer", "sure", "progress-words"]) by(id).textContent = "";
  by("copies-words").textContent = UNTIL_COPIES;
  by("histogram-words").textContent = UNTIL_COUNTED;
  by("copies").replaceChildren();
  by("picture").getContext("2d").reset(); // its place stays, so that nothing jumps
  by("progress").value = 0;
  trouble("");
  badge("", "");
}

// Sampling

async function sample(copies = Number(copiesWanted.value)) {
  if (!state.input) return;
  forget();
  const running = { abort: new AbortController(), id: null, copies };
  const k = Number(radius.value), measure = chosen(), at = thresholdAt(measure);
  const question = onlyQuestion();
  Object.assign(state, { running, about: state.input.name, asked: { k, at, measure: measure.name } });
  const alpha = by("alpha").value;
  const path = question
    ? `/v1/decide/stream?measure=${measure.name}&at_least=${measure.at_least[at]}&radius=${radiusAt(k)}&n_max=${copies}&alpha=${alpha}`
    : `/v1/certify/stream?n=${copies}&alpha=${alpha}&claims=label&claims=${measure.name}&sides=both`;
  say([question ? "Sampling until the question is answered …" : "Sampling …"]);
  badge("busy", "sampling");
  speak();
  buttons();
  render();
  try {
    for await (const event of events(path, state.input.body, state.input.type, running.abort.signal)) {
      if (state.running !== running) return;
      HANDLERS[event.event](event, running);
    }
  } catch (error) {
    if (error.name === "AbortError" || state.running !== running) return;
    refuse(error);
  }
  if (state.running === running) state.running = null;
  buttons();
}

const HANDLERS = {
  accepted(event, running) {
    running.id = event.id;
    showPicture(event.input);
  },
  chosen(event) {
    by("copies-words").textContent = `The first noisy copies, each with its value, for the answer ${classOf(event.predicted)}. Outlined: copies on which another class wins.`;
  },
  copies(event) {
    state.copies = event.copies;
    by("copies").replaceChildren(...event.copies.map((copy, k) => {
      const holder = document.createElement("div"), picture = document.createElement("canvas");
      if (copy.pixels.base64) drawPixels(picture, copy.pixels);
      holder.className = copy.vote ? "" : "against";
      picture.style.animationDelay = `${40 * k}ms`;
      holder.append(picture, "");
      return holder;
    }));
    showCopies();
  },
  progress(event) {
    by("progress").value = event.n / event.of;
    by("progress-words").textContent = `${grouped(event.n)} of ${event.evidence === undefined ? "" : "at most "}${grouped(event.of)} copies`;
    state.counted = { ...event, finished: false };
    showHistogram();
    if (event.evidence !== undefined) {
      by("answer").textContent = `Evidence so far: ${Math.floor(100 * event.evidence)}% of what an answer takes.`;
      by("answer").className = "";
    }
  },
  look(event) {
    if (state.view) state.earlier.push(state.view);
    state.view = event;
    badge("busy", `certified so far: ${grouped(event.n)} copies`);
    render();
  },
  done(event, running) {
    finish(event, "certified", running);
  },
  stopped(event, running) {
    finish(event, "stopped", running);
  },
};

function finish(event, how, running) {
  if (event.certificate) {
    state.exported = { document: event.certificate, name: "certificate" };
    if (state.view && state.view.n !== event.view.n) state.earlier.push(state.view);
    badge("certified", how === "certified" ? "certified" : `stopped: certified from ${grouped(event.view.n)} copies`);
    showView(event.view);
  } else if (event.decision) {
    Object.assign(state, { decision: event.decision, sure: event.sure });
    state.exported = { document: event.decision, name: "decision" };
    badge(event.decision.certified ? "certified" : "", event.decision.certified ? "certified" : "no promise");
    by("progress-words").textContent = `Stopped after ${grouped(event.decision.samples)} of at most ${grouped(event.decision.n_max)} copies.${seeding(event.decision.seeded_by)}`;
    render();
  } else {
    showNothing();
  }
  if (event.error && how !== "certified" && !event.certificate) trouble(event.error);
  speak();
}

function showNothing() {
  badge("", "stopped");
  say(["Stopped before anything was certified."]);
}

function showView(view) {
  Object.assign(state, { view, counted: { ...view, finished: true } });
  by("progress").value = 1;
  showTotal();
  render();
}

// How many copies there were, and how many there would be with the present choices.
function showTotal() {
  const { view, counted, fromFile } = state, wanted = Number(copiesWanted.value);
  if (!view || !counted.finished) return;
  const more = view.n < wanted && !onlyQuestion() ? ` “Certify again” draws ${grouped(wanted)}, for a tighter bound.` : "";
  by("progress-words").textContent = fromFile
    ? `Computed from the counts of ${grouped(view.n)} copies in a file.`
    : `Certified from ${grouped(view.n)} copies.${more}${seeding(view.seeded_by)}`;
}

function showHistogram() {
  const { title, support, name } = chosen(), { counted } = state;
  const found = counted && named(counted.measures, name);
  if (!found) {
    drawHistogram(by("histogram"), { title, support, histogram: new Array(50).fill(0), mean: null });
    return;
  }
  drawHistogram(by("histogram"), { title, support, histogram: found.histogram, mean: found.mean });
  const kind = counted.finished ? "an estimate; the certificate is above" : "an estimate, not a certificate";
  by("histogram-words").textContent = `The ${title} of ${grouped(counted.n)} copies; the line is the average, ${floorDecimals(found.mean, 3)} (${kind}).`;
}

function showCopies() {
  const { name } = chosen();
  state.copies.forEach((copy, k) => {
    const holder = by("copies").children[k];
    if (holder) holder.lastChild.textContent = copy.values[name].toFixed(2);
  });
}

function cancel() {
  if (state.running) state.running.abort.abort();
  state.running = null;
}

// Stopping keeps the certificate of the last look; the stream ends with it.
async function stop() {
  const { running } = state;
  if (!running) return;
  if (!running.id) {
    cancel();
    showNothing();
    speak();
    buttons();
    return;
  }
  try {
    await ask(`/v1/requests/${running.id}`, { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404) complain(error);
  }
}

const reasonOf = (error) => (error instanceof Refused ? error.message : `The service cannot be reached: ${error.message}`);

function complain(error, words = reasonOf(error)) {
  if (error.status === 401) {
    by("key-form").hidden = false;
    by("key").focus();
  } else trouble(words);
}

// No answer about the input that was sent: nothing stays that might be taken for one.
function refuse(error) {
  forget();
  showPicture(null);
  complain(error);
  say(["No answer."]);
  speak();
  buttons();
  render();
}

// Images

// Reads a file that was dropped. One that cannot be read changes nothing; until it has been read, sampling goes on.
async function take(file) {
  if (!state.model) return;
  state.reading = file;
  trouble("");
  buttons();
  try {
    const show = /\.json$/i.test(file.name) || file.type === "application/json" ? await readExport(file) : await readUpload(file);
    if (state.reading === file) show();
  } catch (error) {
    if (state.reading !== file) return;
    state.reading = null;
    const kept = state.about ? ` What is shown is still about ${state.about}.` : "";
    complain(error, `${file.name}: ${reasonOf(error).replace(/\.?$/, ".")}${kept}`);
    buttons();
  }
}

async function readUpload(file) {
  const { body, type, note } = await readImage(file, state.model.shape);
  return () => {
    press(null);
    use({ body, type, name: file.name }, `${file.name}: ${note}`);
  };
}

function use(input, note, copies) {
  state.input = input;
  by("input-note").textContent = note;
  sample(copies);
}

// What the verdict is about, if it can be shown.
function showPicture(pixels) {
  const visible = Boolean(pixels && pixels.base64);
  if (visible) drawPixels(by("picture"), pixels);
  by("drop").classList.toggle("filled", visible);
  by("drop-words").textContent = visible ? "Drop another, or press to choose" : "Drop an image here, or press to choose one";
}

function press(button) {
  for (const each of by("samples").children) each.setAttribute("aria-pressed", each === button);
}

// The page begins with the first sample, certified from few copies; unless its visitor was faster.
async function showSamples() {
  const buttonsMade = Array.from({ length: state.model.samples }, (_, k) => {
    const button = document.createElement("button"), picture = document.createElement("img");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-label", `sample ${k + 1}`);
    picture.alt = "";
    button.append(picture);
    return button;
  });
  by("samples").replaceChildren(...buttonsMade);
  await Promise.all(buttonsMade.map(async (button, k) => {
    const response = await ask(`/v1/samples/${k}`);
    const body = await response.blob(), name = `Sample ${k + 1}`, label = classOf(response.headers.get("X-Label"));
    button.firstChild.src = URL.createObjectURL(body);
    button.title = label;
    button.setAttribute("aria-label", `sample ${k + 1}: ${label}`);
    const pick = (copies) => {
      press(button);
      use({ body, type: "image/png", name }, `${name}; its label is ${label}.`, copies);
    };
    button.addEventListener("click", () => pick());
    if (k === 0 && !state.input && !state.reading && !state.about) pick(Math.min(FIRST_COPIES, state.model.limits.copies));
  }));
}

// Certificates out and in

function save() {
  const { document: content, name } = state.exported;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(content)], { type: "application/json" }));
  link.download = `${name}-${(state.model.labels[content.predicted] || `class ${content.predicted}`).replace(/[^a-z0-9]+/gi, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function readExport(file) {
  const text = await file.text();
  let content = null;
  try {
    content = JSON.parse(text);
  } catch { /* the service says what is wrong with it */ }
  if (content?.format === "decision-1") {
    const { reason, measure, at_least: threshold, radius: within } = content;
    if (typeof reason !== "string" || typeof measure !== "string" || typeof threshold !== "number" || typeof within !== "number") {
      throw new Refused(422, "not a decision as the service writes it: it lacks the reason, the measure, at_least or the radius.");
    }
    return () => showExport(file, { decision: content, exported: { document: content, name: "decision" } }, () => {
      by("histogram-words").textContent = "Nor are their values.";
      by("input-note").textContent = `${file.name}, an exported decision: what it says is shown as it is.`;
      state.asked = slideTo(content);
      render();
    });
  }
  const response = await ask("/v1/read", { method: "POST", body: text, headers: { "Content-Type": "application/json" } });
  const view = await response.json();
  const claimed = view.measures.find((each) => each.name === measureChoice.value && each.curve) || view.measures.find((each) => each.curve);
  if (!claimed) throw new Refused(422, "This certificate claims nothing but its label: there is no curve to show.");
  return () => showExport(file, { view, exported: { document: content, name: "certificate" } }, () => {
    by("input-note").textContent = `${file.name}, an exported certificate: its bounds were computed again from its counts.`;
    offerMeasures();
    measureChoice.value = claimed.name;
    showView(view);
  });
}

// Moves the sliders to the question of a decision and returns where they stand, if they have a place for it.
function slideTo({ measure: name, at_least: threshold, radius: within, noise }) {
  const near = (one, other) => Math.abs(one - other) < 1e-9;
  const measure = named(state.model.measures, name), { scale, kind } = state.model.noise;
  const k = Math.round(400 * within / (4 * scale));
  const at = measure ? measure.at_least.findIndex((each) => near(each, threshold)) : -1;
  if (noise?.kind !== kind || k < 0 || k > 400 || !near(radiusAt(k), within) || at < 0) return null;
  offerMeasures();
  measureChoice.value = name;
  confidence.max = measure.at_least.length;
  confidence.value = at + 1;
  radius.value = k;
  return { k, at, measure: name };
}

function showExport(file, found, draw) {
  forget();
  press(null);
  showPicture(null); // the input itself is not in a certificate
  Object.assign(state, { input: null, about: file.name, fromFile: true, ...found });
  by("copies-words").textContent = "Read from a file: the copies themselves are not in it.";
  draw();
  badge("", "from a file");
  speak();
  buttons();
}

// Wiring

function wire() {
  for (const slider of [radius, confidence, measureChoice]) {
    slider.addEventListener("input", render);
    slider.addEventListener("change", speak);
  }
  for (const choice of [copiesWanted, ...document.querySelectorAll("input[name=mode]")]) choice.addEventListener("change", showTotal);
  by("go").addEventListener("click", () => sample());
  by("stop").addEventListener("click", stop);
  by("export").addEventListener("click", save);
  by("drop").addEventListener("click", () => by("file").click());
  by("file").addEventListener("change", (event) => {
    if (event.target.files[0]) take(event.target.files[0]);
    event.target.value = "";
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    by("drop").classList.add("over");
  });
  document.addEventListener("dragleave", () => by("drop").classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    by("drop").classList.remove("over");
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  by("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(by("key").value);
    by("key-form").hidden = true;
    begin();
  });
  const sizes = new ResizeObserver(() => {
    if (state.model) render();
  });
  for (const id of ["chart", "histogram"]) sizes.observe(by(id));
}

// Up to what the service allows, which is offered itself where it is less; the most is chosen at first.
function offerCopies() {
  if (copiesWanted.options.length) return;
  const most = state.model.limits.copies, counts = new Set(OFFERED_COPIES.map((count) => Math.min(count, most)));
  copiesWanted.replaceChildren(...[...counts].map((count) => new Option(grouped(count), count, false, count === Math.max(...counts))));
}

async function begin() {
  try {
    state.model = await (await ask("/v1/model")).json();
  } catch (error) {
    complain(error);
    return;
  }
  offerCopies();
  const { shape, noise } = state.model;
  by("model").textContent = `How sure can ${state.model.name} be, whatever an attacker does to the image? It sees ${shapeText(shape)}, under noise: ${symbols(noise.title)}.`;
  for (const each of document.querySelectorAll(".norm")) each.textContent = symbols(noise.norm);
  by("noise").textContent = symbols(noise.title);
  render();
  await showSamples();
}

wire();
begin();
