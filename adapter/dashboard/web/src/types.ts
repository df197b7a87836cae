// The answers of /golda/v1, as adapter/dashboard/api declares them. Names that
// end in Ns are nanoseconds; counts are totals, which only grow.

export interface Info {
  version: number;
  golda: string;
  pipeline: string;
  process: string;
  started: string;
  readOnly: boolean;
  payloads: boolean;
  actions: string[] | null;
  recorded?: boolean; // the answers are those of a recording
  tap?: boolean; // commands can be watched
  fleet?: boolean; // the numbers are sums over processes
  policies?: string[] | null;
}

export interface Durations {
  count: number;
  sumNs: number;
  p50Ns: number;
  p99Ns: number;
  maxNs: number;
  buckets?: [number, number][] | null; // left out of some snapshots of a history
}

export interface Edge {
  to: string;
  port: string;
  back: boolean;
  moved: number;
}

export interface Stage {
  process: string;
  version: string;
  pool: string;
  paused: boolean;
  draining: boolean;
  drained: boolean;
  queue: { [name: string]: number };
  workers: { [name: string]: number };
  counts: { [name: string]: number };
  reasons: { [what: string]: number } | null; // "shed expired"
  wait: Durations;
  service: Durations;
  edges: Edge[] | null;
}

export interface Pool {
  policy?: string;
  stages?: string[] | null;
  plan?: string;
  workers?: number;
  busy?: number;
  idle?: number;
  most?: number;
}

export interface Feed {
  to: string;
  state?: string;
  running?: boolean;
  ended?: boolean;
  read?: number;
  error?: string;
  [name: string]: unknown;
}

export interface Snapshot {
  n: number;
  at: string;
  pipeline: string;
  policy: string;
  cpuNs: number;
  processors: number;
  accepted: number;
  replied: number;
  failed: number;
  shed: number;
  deadLettered: number;
  inFlight: number;
  answered: number;
  order: string[];
  stages: { [name: string]: Stage };
  pools: { [name: string]: Pool } | null;
  feeds: { [name: string]: Feed } | null;
}

export interface Graph {
  stages: { name: string; kind?: string; group?: string; process?: string; keyed?: boolean; shared?: string; pool?: string }[] | null;
  edges: { from: string; to: string; port: string; back: boolean }[] | null;
  feeds: { name: string; to: string }[] | null;
}

export interface Change {
  n: number;
  at: string;
  who: string;
  what: string;
  stage: string;
  from: unknown;
  to: unknown;
  reason: string;
  process?: string; // of a fleet
}

export interface Letter {
  n: number;
  at: string;
  stage: string;
  error: string;
  reason: string;
  fingerprint: string;
  attempt: number;
  type?: string; // of the command
  command?: unknown; // null unless payloads are shown
  summary?: string;
  missing?: string; // why there is no command
  parked?: boolean; // later commands of its key wait for it
  waiting?: number; // how many, if parked
  process?: string; // of a fleet
}

export interface Failure {
  store: string;
  fingerprint: string;
  stage: string;
  error: string;
  reason?: string;
  count: number;
  kept?: number;
  parked?: number; // of kept, the letters that later commands of their keys wait for
  waiting?: number; // how many commands wait for the parked letters
  first: string;
  last: string;
  stack?: string;
  sample?: Letter | null;
  processes?: string[]; // of a fleet
}

export interface Busy {
  since: string;
  ns: number;
  worker: number;
  at: string; // the innermost call of the user's code, if the stacks were asked for
  waits: string;
  suspended: boolean;
  process?: string; // of a fleet
}

export interface Part {
  stage: string;
  workers: number;
  busy: number;
  most: number;
  queue: number;
  capacity: number;
  done: number;
  errors: number;
  crashes: number;
}

export interface Process {
  name: string;
  host: string;
  pid: number;
  state: string; // alive, silent, lost or left
  started: string;
  heard: string;
  error: string;
  answers?: boolean; // of a fleet: its letters and changes are known
  accepted: number;
  inFlight: number;
  stages: Part[] | null;
}

export interface Inlet {
  name: string;
  stage: string;
  published: number;
  done: number;
  buried: number;
  pending: number;
  inFlight: number;
  oldestNs: number;
  rate: number;
  processes: number;
  workers: number;
  wantedProcesses: number;
  wantedWorkers: number;
  bottleneck: string;
  law: string;
  holds: boolean;
}

export interface Fleet {
  at: string;
  error: string;
  processes: Process[] | null;
  inlets: Inlet[] | null;
}

export interface Seen {
  at: string;
  stage: string;
  command: string; // its type, or its text if payloads are shown
  attempt: number;
  tookNs: number;
  batch: number;
  result: string; // ok, forward, error or crash
  next: string;
  error: string;
}

export interface Watched {
  asked: number;
  matched: number;
  dropped: number;
  shown: number;
  ended: string; // why; empty while it goes on
}

export interface Key {
  hash: string;
  name: string; // the key, if payloads are shown
  waiting: number;
  atWork: boolean; // a worker has commands of it
  parked: boolean; // the commands wait for a letter
  process: string; // of a fleet
}

export interface Keys {
  stage: string;
  keys: Key[];
  whole: boolean; // all keys were looked at
}

export interface Timers {
  stage: string;
  windows: { open: number; commands: number; oldestNs: number; watermark: string | null; whole: boolean } | null;
  ticks: { what: string; inNs: number; process: string }[];
}

export interface Work {
  stages: { name: string; busy: Busy[] | null }[] | null;
}

export interface Tree {
  name: string;
  kind: string;
  state?: string;
  since?: string | null;
  until?: string | null; // when it may be started, if it pauses
  detail?: string;
  strategy?: string;
  restarts?: number;
  intensity?: { max: number; withinNs: number; used: number } | null;
  lastReason?: string;
  children?: Tree[] | null;
}

export interface Verdict {
  stage: string;
  limit: string;
  use: number;
  gain: number;
  blocks: string[] | null;
  text: string;
  n?: number; // of the snapshot at the end of its interval
}

export interface Verdicts {
  now: Verdict | null;
  before: Verdict | null;
}

export interface History {
  everyNs: number;
  snapshots: Snapshot[] | null;
  verdicts?: Verdict[] | null; // that differ from the one before
}

export interface Recording {
  root: Info;
  graph: Graph;
  history: History;
  journal: { changes: Change[] | null };
  failures: { groups: Failure[] | null };
  workers: Work;
  tree: Tree;
  verdict: Verdicts;
  processes?: Fleet | null;
}
