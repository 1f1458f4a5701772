// Browsers forbid workers on file://. There the search runs in a hidden frame with the face of a worker.
// Messages are copied, as between a page and a worker: otherwise the search changes the query that the page shows.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const scope = this.frame.contentWindow
      scope.postMessage = message => {
        const data = structuredClone(message)
        setTimeout(() => this.onmessage?.({ data }))
      }
      this.loaded = new Promise((resolve, reject) => {
        const script = scope.document.createElement("script")
        script.src = url
        script.onload = resolve
        script.onerror = reject
        scope.document.body.append(script)
      })
      this.loaded.catch(error => this.onerror?.(error))
    }
    postMessage(message) {
      const data = structuredClone(message)
      this.loaded.then(() => this.frame.contentWindow.onmessage({ data }), () => {})
    }
    terminate() {
      this.frame.remove()
    }
  }
}
