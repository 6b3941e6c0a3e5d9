"""The service's pages for people: made on the server, with little script, over the same functions as the API."""
