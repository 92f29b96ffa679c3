// Runs ONNX models on onnxruntime-web, in Node or in a page of a browser, as its server asks (web_server.py).
//
// It fetches one request after the other and posts the answer. A message is the length of a header (4 bytes, little
// endian), the header as JSON, and bytes; [begin, length] in the header names a part of those bytes.

const page = typeof document !== 'undefined';
const [address, library] = page ? [`${location.origin}${location.pathname}`, './ort/MODULE'] : process.argv.slice(2);
const ort = await import(library);
const sessions = new Map();
const float16 = globalThis.Float16Array ?? Uint16Array;
const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16, int8: Int8Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
  bool: Uint8Array,
};
let lost = '';

async function load({ session, model, provider, options, flags }, bytes) {
  Object.assign(ort.env.wasm, flags);
  const settings = { ...options, executionProviders: [provider] };
  sessions.set(session, await ort.InferenceSession.create(new Uint8Array(bytes, ...model), settings));
  if (provider === 'webgpu') {
    const device = await ort.env.webgpu.device;
    // The library itself destroys the device after the last session's end.
    device.lost.then((info) => { lost = info.reason === 'destroyed' ? lost : info.message || 'for an unknown reason'; });
  }
  const { inputNames, outputNames } = sessions.get(session);
  return [{ inputs: inputNames, outputs: outputNames }, []];
}

async function run({ session, feeds }, bytes) {
  const given = {};
  for (const { name, dtype, shape, part } of feeds) {
    const data = bytes.slice(part[0], part[0] + part[1]);
    given[name] = new ort.Tensor(dtype, new ARRAYS[dtype](data), shape);
  }
  const { outputNames } = sessions.get(session);
  const found = await sessions.get(session).run(given);
  const arrays = await Promise.all(outputNames.map((name) => found[name].getData()));
  const outputs = outputNames.map((name) => ({ dtype: found[name].type, shape: found[name].dims }));
  return [{ outputs }, arrays];
}

async function describe({ adapter }) {
  const facts = page ? { browser: navigator.userAgent } : { node: process.versions.node, v8: process.versions.v8 };
  facts.isolated = page ? crossOriginIsolated : true;
  if (adapter === 'webgpu') {
    const found = await navigator.gpu?.requestAdapter();
    if (!found) throw new Error('the browser has no adapter for WebGPU');
    const { vendor, architecture, device, description, isFallbackAdapter } = found.info;
    facts.adapter = { vendor, architecture, device, description, isFallbackAdapter };
    facts.features = [...found.features].sort();
  }
  if (adapter === 'webgl') {
    const context = new OffscreenCanvas(1, 1).getContext('webgl2');
    if (!context) throw new Error('the browser has no context for WebGL 2');
    const names = context.getExtension('WEBGL_debug_renderer_info');
    facts.adapter = { description: context.getParameter(names?.UNMASKED_RENDERER_WEBGL ?? context.RENDERER) };
  }
  return [{ facts }, []];
}

// What the library prints names the nodes that it leaves to the CPU.
let printed = null;
for (const name of ['log', 'info', 'warn', 'error', 'debug']) {
  const before = console[name];
  console[name] = (...words) => (printed ? printed.push(words.join(' ')) : page && before.apply(console, words));
}

function message(header, arrays) {
  const parts = arrays.map((array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  const text = new TextEncoder().encode(JSON.stringify({ ...header, sizes: parts.map((part) => part.length) }));
  return new Blob([new Uint32Array([text.length]), text, ...parts]);
}

async function answer(body) {
  const size = new DataView(body).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, size)));
  printed = header.listens ? [] : null;
  try {
    for (const session of header.forgotten) {
      await sessions.get(session)?.release();
      sessions.delete(session);
    }
    const [found, arrays] = await { load, run, describe }[header.action](header, body.slice(4 + size));
    if (lost) throw new Error(`the device is lost: ${lost}`);
    return message({ ...found, printed }, arrays);
  } catch (error) {
    return message({ error: `${error?.message ?? error}`, kind: `${error?.name ?? 'Error'}`, printed }, []);
  }
}

// The server answers 204 where it has no request for a while. Where it has ended, so does this.
for (;;) {
  const request = await fetch(`${address}next`);
  if (request.status === 200) {
    await fetch(`${address}answer`, { method: 'POST', body: await answer(await request.arrayBuffer()) });
  } else if (request.status !== 204) {
    throw new Error(`the server answers ${request.status}`);
  }
}
