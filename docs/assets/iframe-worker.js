// Browsers forbid workers on file://. There the search runs in a hidden frame with the face of a worker.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const scope = this.frame.contentWindow
      scope.postMessage = data => setTimeout(() => this.onmessage?.({ data }))
      this.loaded = new Promise((resolve, reject) => {
        const script = scope.document.createElement("script")
        script.src = url
        script.onload = resolve
        script.onerror = reject
        scope.document.body.append(script)
      })
      this.loaded.catch(error => this.onerror?.(error))
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.onmessage({ data }), () => {})
    }
    terminate() {
      this.frame.remove()
    }
  }
}
