"""What each inference server sends and exports, behind one interface."""
