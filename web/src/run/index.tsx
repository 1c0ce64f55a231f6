export function RunPage({ id }: { id: string }) {
  return <main class="page"><h1>Run {id}</h1></main>;
}

export function SideBySide({ left, right }: { left: string; right: string }) {
  return <main class="page"><h1>{left} and {right}</h1></main>;
}
