/** A whole page that tells one problem. */
export function Problem({ title, detail, action, onAction }: { title: string; detail: string; action?: string; onAction?: () => void }) {
  return (
    <main class="empty page">
      <h1>{title}</h1>
      <p>{detail}</p>
      {action && <p><button class="button" onClick={onAction}>{action}</button></p>}
    </main>
  );
}
