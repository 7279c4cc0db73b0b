"""Work queue, informer handlers and kinds shared by all controllers."""
