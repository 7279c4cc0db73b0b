"""The children: who they are, where each stands, when one is restarted, ended or given up."""
